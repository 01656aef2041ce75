"""When a pool of workers runs, and for how long after the last model that needs it."""

import asyncio
import copy
from typing import Any

import pytest

from conch_contracts.records import ModelKind
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.worker_pools import TOLD_AGAIN_S, WorkerPools
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.resources.worker_pool import WorkerPoolPlace, make_worker_pool
from conch_operator.settings import EngineSettings, ReleaseFile, WorkerPoolSettings
from testkit.clock import FakeClock
from testkit.waiting import eventually

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "llm-worker"},
    "spec": {},
}
POOL = WorkerPoolSettings.model_validate({"kinds": ["LLM"], "idle_seconds": 60, "objects": {"deployment": DEPLOYMENT}})


class Server(KubernetesApi):
    """An API server that keeps objects."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, Object] = {}

    async def list_all(
        self, kind: Kind, namespace: str | None, *, labels: str | None = None, metadata_only: bool = False
    ) -> list[Object]:
        return [copy.deepcopy(item) for item in self.objects.values() if item["kind"] == kind.name]

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self.objects.get(name)

    async def apply(self, kind: Kind, made: Object) -> Object:
        meta = {**made["metadata"], "uid": "u", "resourceVersion": "1", "generation": 1}
        self.objects[meta["name"]] = {**made, "metadata": meta}
        return copy.deepcopy(self.objects[meta["name"]])

    async def delete(self, kind: Kind, found: Object) -> None:
        del self.objects[found["metadata"]["name"]]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def pools(server: Server, clock: FakeClock) -> WorkerPools:
    release = {"namespace": "conch", "name": "conch"}
    fields = {"release": release, "engines": EngineSettings(agent_image="a"), "worker_pools": {"llm": POOL}}
    return WorkerPools(server, ReleaseFile.model_validate(fields), clock)


async def test_a_pool_runs_while_a_model_needs_it_and_a_while_longer(
    server: Server, clock: FakeClock, pools: WorkerPools
) -> None:
    await pools.ensure([], {})
    assert not server.objects, "nobody has needed it yet"
    await pools.ensure([ModelKind.LLM], {})
    for seconds, there in [(60, True), (0.1, False)]:
        clock.advance(seconds)
        await pools.ensure([], {})
        assert bool(server.objects) is there


async def test_a_pool_of_the_operator_before_this_one_is_not_ended_at_once(
    server: Server, clock: FakeClock, pools: WorkerPools
) -> None:
    (before,) = make_worker_pool("llm", POOL, WorkerPoolPlace("conch", None, 3))
    before["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 1}
    server.objects["llm-worker"] = before
    await pools.ensure([], {})
    assert server.objects["llm-worker"]["spec"]["replicas"] >= 1
    clock.advance(60)
    await pools.ensure([], {})
    assert server.objects
    clock.advance(0.1)
    await pools.ensure([], {})
    assert not server.objects


OPERATOR: Object = {"metadata": {"name": "conch-operator", "namespace": "conch", "uid": "o", "resourceVersion": "1"}}


class Refusing(Server):
    """An API server that refuses what is applied, and keeps Events."""

    def __init__(self) -> None:
        super().__init__()
        self.objects["conch-operator"] = {**OPERATOR, "kind": "other"}
        self.events: list[Object] = []
        self.error: ApiError | None = ApiError(400, "tolerations[0].effect: Unsupported value")
        self.no_event: ApiError | None = None

    async def apply(self, kind: Kind, made: Object) -> Object:
        if self.error is not None:
            raise self.error
        return await super().apply(kind, made)

    async def create(self, kind: Kind, made: Object) -> Object:
        if self.no_event is not None:
            raise self.no_event
        self.events.append(made)
        return made


def owned_pools(server: Server, clock: FakeClock) -> WorkerPools:
    """Return pools that belong to the operator's Deployment."""
    fields = {
        "release": {"namespace": "conch", "name": "conch"},
        "engines": EngineSettings(agent_image="a"),
        "worker_pools": {"llm": POOL},
        "owner": {"api_version": "apps/v1", "kind": "Deployment", "name": "conch-operator"},
    }
    return WorkerPools(server, ReleaseFile.model_validate(fields), clock)


async def test_a_refusal_whose_event_was_not_written_is_told_again_at_once(clock: FakeClock) -> None:
    server = Refusing()
    pools = owned_pools(server, clock)
    server.no_event = ApiError(503, "try again")
    await pools.ensure([ModelKind.LLM], {})
    assert not server.events
    server.no_event = None
    for _ in range(2):
        await pools.ensure([ModelKind.LLM], {})
    assert len(server.events) == 1


async def test_a_refused_object_of_a_pool_is_told_in_an_event_now_and_then(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    server = Refusing()
    pools = owned_pools(server, clock)
    for _ in range(3):
        await pools.ensure([ModelKind.LLM], {})
    (event,) = server.events
    assert (event["type"], event["reason"], event["metadata"]["namespace"]) == ("Warning", "Rejected", "conch")
    assert event["regarding"]["name"] == "conch-operator", "the workers' Deployment is not there"
    said = "The API server refused Deployment llm-worker: tolerations[0].effect: Unsupported value. Correct workers.llm"
    assert event["note"].startswith(said)
    assert [record.message for record in caplog.records] == ["An object of a pool was refused."]
    clock.advance(TOLD_AGAIN_S)
    await pools.ensure([ModelKind.LLM], {})
    assert len({event["metadata"]["name"] for event in server.events}) == 2
    error, server.error = server.error, None
    await pools.ensure([ModelKind.LLM], {})
    server.objects["llm-worker"]["metadata"]["generation"] = 2
    server.error = error
    await pools.ensure([ModelKind.LLM], {})
    assert [event["regarding"]["name"] for event in server.events][2:] == ["llm-worker"]


async def test_no_worker_is_made_without_the_owner_that_it_goes_with(
    server: Server, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    pools = owned_pools(server, clock)
    for _ in range(3):
        await pools.ensure([ModelKind.LLM], {})
    assert not server.objects
    (said,) = [record.__dict__["error"] for record in caplog.records]
    assert "conch-operator that owns the workers does not exist" in said


async def test_a_pool_that_hangs_holds_up_no_round_and_is_seen_to_later(server: Server, clock: FakeClock) -> None:
    hangs, may_end, rounds = asyncio.Event(), asyncio.Event(), []

    async def apply(kind: Kind, made: Object) -> Object:
        hangs.set()
        await may_end.wait()
        return await Server.apply(server, kind, made)

    server.apply = apply  # type: ignore[method-assign]
    fields = {
        "release": {"namespace": "conch", "name": "conch"},
        "engines": EngineSettings(agent_image="a"),
        "worker_pools": {"llm": POOL},
    }
    background = Background(changed=lambda: rounds.append(1), patience_s=0.01)
    pools = WorkerPools(server, ReleaseFile.model_validate(fields), clock, background)
    async with asyncio.timeout(30):
        await pools.ensure([ModelKind.LLM], {})
        await hangs.wait()
        await pools.ensure([ModelKind.LLM], {})
    may_end.set()
    await eventually(lambda: list(server.objects) == ["llm-worker"], "the pool")
    await pools.ensure([ModelKind.LLM], {})
    assert rounds == [], "the end begins no round, which would begin it again"
