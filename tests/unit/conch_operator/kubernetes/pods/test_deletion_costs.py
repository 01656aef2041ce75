"""What a ReplicaSet is told of the pods that it may end."""

import asyncio
from dataclasses import replace

import pytest

from conch_contracts.names import EngineAddress
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.pods.deletion_costs import SEEN_S, note_costs
from conch_operator.state import DesiredModel, Scaled
from testkit.builders.model_deployments import desired_model

COST = "controller.kubernetes.io/pod-deletion-cost"


@pytest.fixture(autouse=True)
def waited_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return for how long it was waited; that takes no time."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return found


class Patched(KubernetesApi):
    """An API server that notes what pods are given, or refuses it."""

    def __init__(self, refusal: ApiError | None = None) -> None:
        super().__init__()
        self.noted: dict[str, Object] = {}
        self.refusal = refusal

    async def patch_list(self, kind: Kind, namespace: str, name: str, change: Object, subresource: str) -> Object:
        assert (kind.name, namespace, subresource) == ("Pod", "ns", "status")
        self.noted[name] = change["metadata"]["annotations"]
        if self.refusal is not None:
            raise self.refusal
        return {}


def pod(name: str, address: str, **annotations: str) -> Object:
    meta = {"name": name, "namespace": "ns", "annotations": annotations}
    return {"metadata": meta, "spec": {}, "status": {"podIP": address}}


BUSY, IDLE, WAS_BUSY = pod("busy", "10.0.0.1"), pod("idle", "10.0.0.2"), pod("was-busy", "10.0.0.3", **{COST: "4"})


def with_engines(count: int) -> DesiredModel:
    model = desired_model(scaling={"minReplicas": 0, "maxReplicas": 3})
    return replace(model, scaled=Scaled(count, taken={EngineAddress("10.0.0.1:8001"): 7}))


@pytest.mark.parametrize(
    ("engines", "noted", "waits_s"),
    [
        pytest.param(2, {"busy": {COST: "7"}, "was-busy": {COST: "0"}}, [SEEN_S], id="one is too many"),
        pytest.param(3, {}, [], id="none is"),
        pytest.param(0, {}, [], id="all are"),
    ],
)
async def test_pods_say_what_they_have_to_do_when_some_are_too_many(
    engines: int, noted: dict[str, Object], waits_s: list[float], waited_s: list[float]
) -> None:
    api = Patched()
    await note_costs(api, with_engines(engines), [BUSY, IDLE, WAS_BUSY])
    assert (api.noted, waited_s) == (noted, waits_s)


async def test_pods_that_say_it_already_are_not_waited_for(waited_s: list[float]) -> None:
    api = Patched()
    await note_costs(api, with_engines(1), [pod("busy", "10.0.0.1", **{COST: "7"}), IDLE])
    assert (api.noted, waited_s) == ({}, [])


async def test_pods_of_a_model_of_fixed_size_are_left_alone() -> None:
    api = Patched()
    await note_costs(api, desired_model(), [BUSY, IDLE])
    assert api.noted == {}


@pytest.mark.parametrize(("status", "told"), [(404, 0), (403, 2)])
async def test_a_refusal_holds_up_no_scaling(status: int, told: int, caplog: pytest.LogCaptureFixture) -> None:
    await note_costs(Patched(ApiError(status, "no")), with_engines(2), [BUSY, IDLE, WAS_BUSY])
    assert len(caplog.records) == told


async def test_an_api_server_that_does_not_answer_is_told_of() -> None:
    with pytest.raises(ApiError):
        await note_costs(Patched(ApiError(0, "no answer")), with_engines(2), [BUSY, IDLE, WAS_BUSY])
