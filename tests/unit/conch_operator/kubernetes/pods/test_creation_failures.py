from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.pods.creation_failures import ASK_AGAIN_S, SOON_S, CreationFailures, creation_failure
from testkit.clock import FakeClock

QUOTA = 'pods "tiny-engine-1" is forbidden: exceeded quota: q'
FAILURE = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": QUOTA}
AVAILABLE = {"type": "Available", "status": "True", "message": "fine"}


def deployment(replicas: int = 2, updated: int = 1, seen: int = 3, *conditions: Object) -> Object:
    status: dict[str, Any] = {"observedGeneration": seen, "updatedReplicas": updated, "replicas": updated}
    return {
        "metadata": {"namespace": "ns", "name": "tiny-engine", "generation": 3, "uid": "d"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "engine", "model": "tiny"}}},
        "status": status | {"conditions": list(conditions)},
    }


def made(spec_hash: str = "h") -> Object:
    meta = {"namespace": "ns", "name": "tiny-engine", "labels": {"conch.dev/spec-hash": spec_hash}}
    template = {"metadata": {"labels": {"conch.dev/spec-hash": f"pods of {spec_hash}"}}}
    return {"metadata": meta, "spec": {"replicas": 2, "template": template}}


ONE, BOTH = ["pods of h"], ["pods of h"] * 2


@pytest.mark.parametrize(
    ("live", "is_told"),
    [
        pytest.param(deployment(2, 1, 3, AVAILABLE, FAILURE), True, id="some are refused"),
        pytest.param(deployment(2, 0, 3, FAILURE), True, id="all are refused"),
        pytest.param(deployment(2, 1, 3, AVAILABLE), False, id="on the way"),
        pytest.param(deployment(2, 1, 3, FAILURE | {"status": "False"}), False, id="over"),
        pytest.param(deployment(2, 2, 3, FAILURE), False, id="none lacks"),
        pytest.param(deployment(2, 1, 2, FAILURE), False, id="of the edit before"),
    ],
)
def test_a_deployment_that_lacks_pods_says_why(live: Object, is_told: bool) -> None:
    fault = creation_failure(live)
    assert (fault is not None) == is_told
    if fault is not None:
        assert fault.reason is Reason.REJECTED
        assert fault.message.startswith(f"The API server refuses the engine's pods: {QUOTA}. ")


def test_a_quota_on_limits_names_the_field_to_set() -> None:
    message = 'pods "a" is forbidden: failed quota: q: must specify limits.cpu for: triton; limits.memory for: triton'
    fault = creation_failure(deployment(2, 0, 3, FAILURE | {"message": message}))
    assert fault is not None
    assert fault.message.endswith(
        "limits.memory for: triton. Set spec.engine.resources.limits for what it names; the pods are made then."
    )


def replica_set(revision: int, message: str, owner: str = "d") -> Object:
    failures = [{**FAILURE, "message": message}] if message else []
    annotations = {"deployment.kubernetes.io/revision": str(revision)}
    meta = {"annotations": annotations, "ownerReferences": [{"uid": owner}]}
    return {"metadata": meta, "status": {"conditions": failures}}


class Server(KubernetesApi):
    """Gives one Deployment, and counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.live = deployment(2, 1, 3, FAILURE)
        self.error: ApiError | None = None
        self.asked = 0
        self.sets: list[Object] = []

    async def list_all(self, kind: Kind, namespace: str | None, **how: Any) -> list[Object]:
        assert (kind.name, namespace, how) == ("ReplicaSet", "ns", {"labels": "app=engine,model=tiny"})
        return self.sets

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        assert (kind.name, namespace, name) == ("Deployment", "ns", "tiny-engine")
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.live


async def test_a_deployment_is_asked_seldom_and_not_at_all_once_its_pods_are_there() -> None:
    server, clock = Server(), FakeClock()
    failures = CreationFailures(server, clock)
    for _ in range(3):
        assert await failures.fault(made(), ONE, found=True) is not None
    assert server.asked == 1
    server.live = deployment(2, 2, 3)
    clock.advance(ASK_AGAIN_S)
    for _ in range(2):
        assert await failures.fault(made(), BOTH, found=True) is None
        clock.advance(ASK_AGAIN_S)
    assert server.asked == 1
    server.live = deployment(2, 1, 3, FAILURE)
    assert await failures.fault(made(), ONE, found=True) is not None, "a pod has gone and no other may come"
    assert server.asked == 2
    assert await failures.fault(made("edited"), BOTH, found=True) is not None, "those of before are none of its own"
    assert server.asked == 3


async def test_one_that_was_just_made_is_asked_once_its_pods_have_had_time_to_come() -> None:
    server, clock = Server(), FakeClock()
    server.live = deployment(2, 1, 3)
    failures = CreationFailures(server, clock)
    assert await failures.fault(made(), ONE, found=False) is None
    assert await failures.fault(made(), BOTH, found=False) is None
    assert server.asked == 0
    asked_at_s = []
    for second in range(100):
        assert await failures.fault(made(), ONE, found=False) is None
        asked_at_s += [second] if server.asked > len(asked_at_s) else []
        clock.advance(1)
    assert asked_at_s == [2, 4, 8, 16, 32, 62, 92]


async def test_a_refusal_that_comes_after_the_first_look_is_told_soon() -> None:
    server, clock = Server(), FakeClock()
    server.live = deployment(2, 1, 3)
    failures = CreationFailures(server, clock)
    assert await failures.fault(made(), ONE, found=True) is None
    server.live = deployment(2, 1, 3, FAILURE)
    assert await failures.fault(made(), ONE, found=True) is None
    clock.advance(SOON_S)
    assert await failures.fault(made(), ONE, found=True) is not None


async def test_a_deployment_that_cannot_be_read_is_told_of_as_before() -> None:
    server, clock = Server(), FakeClock()
    failures = CreationFailures(server, clock)
    assert await failures.fault(made(), ONE, found=True) is not None
    clock.advance(ASK_AGAIN_S)
    server.error = ApiError(403, "no")
    assert await failures.fault(made(), ONE, found=True) is not None
    assert await failures.fault(made("edited"), ONE, found=True) is None


async def test_what_is_refused_is_what_the_last_change_asks_for() -> None:
    server = Server()
    server.sets = [replica_set(9, "of the first"), replica_set(10, "of the last"), replica_set(11, "no", "another")]
    fault = await CreationFailures(server, FakeClock()).fault(made(), ONE, found=True)
    assert fault is not None
    assert "of the last" in fault.message
    server.sets = [replica_set(9, "of the first"), replica_set(10, "")]
    assert await CreationFailures(server, FakeClock()).fault(made(), ONE, found=True) is None


async def test_a_deployment_that_is_made_no_more_is_forgotten() -> None:
    server = Server()
    failures = CreationFailures(server, FakeClock())
    await failures.fault(made(), ONE, found=True)
    failures.keep_only({("ns", "tiny-engine"), ("ns", "other")})
    await failures.fault(made(), ONE, found=True)
    assert server.asked == 1
    failures.keep_only({("ns", "other")})
    await failures.fault(made(), ONE, found=True)
    assert server.asked == 2
