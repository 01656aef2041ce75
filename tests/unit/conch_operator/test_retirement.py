"""What is said about models when Conch is uninstalled."""

import copy
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Self

import pytest

from conch_contracts.conditions import Condition, ConditionStatus, ConditionType, Reason
from conch_operator import retirement
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import ENGINE_POOL, EVENT, LEASE, MODEL_DEPLOYMENT, Kind, Object
from conch_operator.kubernetes.api.lease import Leadership, LeaseTimes
from conch_operator.retirement import Departure, StatusesLeft, departure, take_statuses_back

EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


class Server(KubernetesApi):
    """An API server with these models, which keeps what is written."""

    def __init__(self, *items: Object) -> None:
        super().__init__()
        self.items = items
        self.statuses: dict[str, Any] = {}
        self.events: list[Object] = []
        self.refuses = False
        self.knows_no_pools = 0
        self.closed: tuple[str, ...] = ()

    async def list_all(self, kind: Kind, namespace: str | None, **_: Any) -> list[Object]:
        if namespace in self.closed:
            raise ApiError(403, "forbidden")
        if kind is ENGINE_POOL and self.knows_no_pools:
            raise ApiError(self.knows_no_pools, "no such thing")
        return [
            item
            for item in self.items
            if namespace in (None, item["metadata"]["namespace"])
            and (kind is ENGINE_POOL) == ("memory" in item["spec"])
        ]

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object, subresource: str) -> Object:
        assert subresource == "status"
        assert kind in (MODEL_DEPLOYMENT, ENGINE_POOL)
        if self.refuses:
            raise ApiError(403, "forbidden")
        self.statuses[f"{namespace}/{name}"] = change["status"]
        self.items = tuple(each | change if each["metadata"]["name"] == name else each for each in self.items)
        return change

    async def create(self, kind: Kind, made: Object) -> Object:
        assert kind is EVENT
        self.events.append(made)
        return made


def item(name: str, *conditions: Condition, spec: Object | None = None, **meta: Any) -> Object:
    known = {"name": name, "namespace": "ns", "uid": name, "generation": 3, "resourceVersion": "1"}
    status = {
        "observedGeneration": 3,
        "servedNames": [name],
        "replicas": 2,
        "readyReplicas": 2,
        "lastProgressTime": LATER,
        "conditions": [one.model_dump(mode="json", by_alias=True) for one in conditions],
    }
    return {
        "metadata": known | {"creationTimestamp": "2026-01-01T00:00:00Z"} | meta,
        "spec": spec or {"kind": "LLM", "source": {"path": "tiny"}, "engine": {"cpu": {}}},
        "status": status,
    }


def condition(kind: ConditionType, status: ConditionStatus) -> Condition:
    return Condition(
        type=kind,
        status=status,
        reason=Reason.READY,
        last_transition_time="2026-01-01T00:00:00Z",
        observed_generation=3,
    )


SERVES = tuple(condition(kind, ConditionStatus.TRUE) for kind in ConditionType)


async def taken_back(*items: Object, namespaces: Sequence[str] = (), **told: Sequence[str]) -> Server:
    server = Server(*items)
    await take_statuses_back(server, "retire-1", departing(*namespaces, **told))
    return server


def departing(*namespaces: str, left: Sequence[str] = (), staying: Sequence[str] = ()) -> Departure:
    """Return whose statuses go in a release that serves these namespaces, none for all."""
    return departure(SimpleNamespace(watch_namespaces=namespaces), left, staying)  # type: ignore[arg-type]


async def test_of_a_model_that_served_nothing_is_claimed_any_more() -> None:
    server = await taken_back(item("one", *SERVES))
    status = server.statuses["ns/one"]
    assert {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]} == dict.fromkeys(
        ConditionType, ("Unknown", "OperatorRemoved")
    )
    assert all("install the chart again" in one["message"].lower() for one in status["conditions"])
    assert all(one["lastTransitionTime"] > LATER for one in status["conditions"])
    assert (status["servedNames"], status["readyReplicas"], status["replicas"]) == ([], 0, 2)
    assert status["observedGeneration"] == 3
    assert [(event["reason"], event["type"]) for event in server.events] == [("OperatorRemoved", "Normal")]


async def test_neither_of_one_whose_spec_cannot_be_read_nor_of_one_without_a_status() -> None:
    new = item("new")
    del new["status"]
    server = await taken_back(item("odd", *SERVES, spec={"kind": "Unheard"}), new)
    assert set(server.statuses) == {"ns/odd", "ns/new"}
    for status in server.statuses.values():
        assert {one["status"] for one in status["conditions"]} == {"Unknown"}


async def test_only_the_models_of_the_release_are_touched_and_none_that_is_being_deleted() -> None:
    server = await taken_back(
        item("ours", *SERVES),
        item("elsewhere", *SERVES, namespace="others"),
        item("going", *SERVES, deletionTimestamp=LATER),
        namespaces=("ns",),
    )
    assert set(server.statuses) == {"ns/ours"}


async def test_what_was_taken_back_already_is_not_written_again() -> None:
    first = await taken_back(item("one", *SERVES))
    again = item("one", *SERVES) | {"status": first.statuses["ns/one"]}
    assert (await taken_back(again)).statuses == {}


def pool(name: str, **status: Any) -> Object:
    made = item(name, condition(ConditionType.READY, ConditionStatus.TRUE), spec={"memory": "1Gi"})
    shown = {"models": 2, "loaded": 1, "memoryBytes": 7, "residents": [{"name": "one", "memoryBytes": 7}]}
    return made | {"status": {**shown, "conditions": made["status"]["conditions"], **status}}


async def test_nor_of_a_pool() -> None:
    server = await taken_back(pool("small"))
    status = server.statuses["ns/small"]
    (ready,) = status["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "Unknown", "OperatorRemoved")
    assert "nobody serves this pool. Its server runs until the pool is deleted." in ready["message"]
    assert (status["models"], status["loaded"], status["memoryBytes"], status["residents"]) == (2, 0, 0, [])
    again = await taken_back(pool("small") | {"status": status})
    assert again.statuses == {}, "it was taken back already"


async def test_nor_of_a_pool_whose_status_another_version_has_written() -> None:
    odd = {"type": "Ready", "status": "True", "reason": "Unheard", "lastTransitionTime": EARLIER}
    server = await taken_back(pool("small", conditions=[odd]))
    assert [one["reason"] for one in server.statuses["ns/small"]["conditions"]] == ["OperatorRemoved"]


@pytest.mark.parametrize("status", [403, 404])
async def test_a_version_without_pools_is_left_as_any_other(status: int) -> None:
    server = Server(item("one", *SERVES), pool("small"))
    server.knows_no_pools = status
    await take_statuses_back(server, "retire-1", departing())
    assert set(server.statuses) == {"ns/one"}


async def test_statuses_that_cannot_be_written_are_a_failure() -> None:
    server = Server(item("one", *SERVES), pool("two"))
    server.refuses = True
    with pytest.raises(StatusesLeft, match="2 models and pools"):
        await take_statuses_back(server, "retire-1", departing())


@pytest.mark.parametrize("told", [{"left": ("gone", "mine")}, {"staying": ("kept",)}])
async def test_of_namespaces_that_are_left_it_is_said_before_the_rights_go(told: dict[str, Sequence[str]]) -> None:
    models = [item(f"in-{namespace}", *SERVES, namespace=namespace) for namespace in ("gone", "kept", "mine")]
    server = await taken_back(*models, namespaces=("kept",), **told)
    assert set(server.statuses) == {"gone/in-gone", "mine/in-mine"}
    assert {one["reason"] for status in server.statuses.values() for one in status["conditions"]} == {"OperatorRemoved"}
    for one in server.statuses["gone/in-gone"]["conditions"]:
        assert one["message"].startswith("This namespace was taken out of the chart's operator.watchNamespaces")
        assert one["message"].endswith("Put the namespace back to have it served.")


async def test_a_namespace_that_was_deleted_before_it_is_left_holds_up_no_other() -> None:
    server = Server(item("one", *SERVES))
    server.closed = ("deleted",)
    await take_statuses_back(server, "retire-1", departing("deleted", "ns", left=("deleted", "ns")))
    assert set(server.statuses) == {"ns/one"}


class LeasedServer(Server):
    """One with a Lease, and an operator that holds it; notes whether that may still write when a status is written."""

    def __init__(self, *items: Object, times: LeaseTimes) -> None:
        super().__init__(*items)
        self.lease: Object | None = None
        self.operator = Leadership(self, ("conch", "conch-operator"), "operator-1", times)
        self.operator_might_write: list[bool] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return copy.deepcopy(self.lease)

    async def create(self, kind: Kind, made: Object) -> Object:
        if kind is not LEASE:
            return await super().create(kind, made)
        self.lease = made | {"metadata": made["metadata"] | {"creationTimestamp": EARLIER}}
        return self.lease

    async def replace(self, kind: Kind, made: Object) -> Object:
        self.lease = made
        return made

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object, subresource: str) -> Object:
        self.operator_might_write.append(self.operator.is_held())
        return await super().patch(kind, namespace, name, change, subresource)


async def test_nothing_is_written_before_the_operator_must_have_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    times = LeaseTimes(15, renew_deadline_s=1.0, retry_s=0.01)
    server = LeasedServer(item("one", *SERVES), times=times)
    monkeypatch.setattr(retirement, "KubernetesApi", lambda *_: server)
    monkeypatch.setattr(retirement, "Leadership", partial(Leadership, times=times))
    place = SimpleNamespace(release=SimpleNamespace(namespace="conch"), lease="conch-operator", watch_namespaces=())
    assert await server.operator.take_or_renew()
    await retirement.retire(SimpleNamespace(pod_name="retire-1"), place, departing())  # type: ignore[arg-type]
    assert server.operator_might_write == [False]
