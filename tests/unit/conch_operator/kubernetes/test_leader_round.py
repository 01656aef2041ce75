"""Rounds over many models on an API server that takes its time, with agents that may hang: none waits for another."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest, ModelId
from conch_contracts.records import GatewayBeat
from conch_kit.registry.snapshot import Snapshot
from conch_operator.agent.messages import FaultReport, SourceReport
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, Kind, Object
from conch_operator.kubernetes.engines import KubernetesEngines
from conch_operator.kubernetes.leader_loop import LeaderRound
from conch_operator.kubernetes.pods.agent_client import Agents
from conch_operator.kubernetes.pods.pod_status import AgentAddress
from conch_operator.kubernetes.sources import AgentSources
from conch_operator.kubernetes.status_writer import StatusWriter
from conch_operator.kubernetes.worker_pools import WorkerPools
from conch_operator.metrics import ScalingMetrics
from conch_operator.probe.prober import Prober, Target
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.reconcile.plan import plan_workloads
from conch_operator.reconcile.reconciler import Ports, Reconciler
from conch_operator.scaling.autoscaler import Autoscaler
from conch_operator.scaling.demand import DemandBook
from conch_operator.settings import ReleaseFile
from conch_operator.state import RoutedModel
from testkit.builders.every_runtime import TOKENS
from testkit.builders.owned_pods import deployments_of, made_by, replica_sets_of
from testkit.waiting import eventually

LATENCY_S = 0.1
FIRST_WORDS_S = 2.0
"""What the reference promises; 50 calls one after another take more."""
POLICY = {"enabled": True, "from": [{"podSelector": {}}], "agentFrom": [{"podSelector": {}}]}
RELEASE = ReleaseFile.model_validate(
    {
        "release": {"name": "conch", "namespace": "conch"},
        "engines": {"agentImage": "a", "images": {"cpu": "c"}, "networkPolicy": POLICY},
    }
)


class SlowServer(KubernetesApi):
    """An API server in memory that takes a while for each call, and for ever for those about some names."""

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, Object] = {}
        self.pods: list[Object] = []
        self.made: dict[tuple[str, str], Object] = {}
        self.hung: Callable[[str, str], bool] = lambda call, name: False
        self.version = 1
        self.conflicts = 0

    def add(self, *names: str) -> None:
        for name in names:
            self.version += 1
            meta = {"name": name, "namespace": "ns", "uid": name, "generation": 1, "resourceVersion": str(self.version)}
            spec = {"kind": "LLM", "source": {"path": "nope"}, "engine": {"cpu": {}}}
            self.models[name] = {"metadata": meta | {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec}

    def start_pods(self) -> None:
        self.pods = [pod(name) for name in self.models]

    def reasons(self, kind: str = "Ready") -> dict[str, str]:
        said = {name: item.get("status", {"conditions": ()})["conditions"] for name, item in self.models.items()}
        return {name: one["reason"] for name, conditions in said.items() for one in conditions if one["type"] == kind}

    async def list_all(
        self,
        kind: Kind,
        namespace: str | None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
    ) -> list[Object]:
        await self._take_time("list", kind.name)
        return [dict(item) for item in self.models.values()] if kind is MODEL_DEPLOYMENT else self._others(kind)

    def _others(self, kind: Kind) -> list[Object]:
        made = [made for (name, _), made in self.made.items() if name == kind.name]
        match kind.name:
            case "Pod":
                return self.pods
            case "ReplicaSet":
                return replica_sets_of(self.pods)
            case "Deployment":
                return list({item["metadata"]["uid"]: item for item in (*deployments_of(self.pods), *made)}.values())
            case _:
                return made

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object, subresource: str) -> Object:
        await self._take_time("patch", name)
        now = self.models[name]
        expected = change.get("metadata", {}).get("resourceVersion")
        if expected not in (None, now["metadata"]["resourceVersion"]):
            self.conflicts += 1
            raise ApiError(409, "the object has been modified")
        self.version += 1
        meta = now["metadata"] | {"resourceVersion": str(self.version)}
        self.models[name] = now | {"metadata": meta, "status": change["status"]}
        return self.models[name]

    async def apply(self, kind: Kind, made: Object) -> Object:
        name = made["metadata"]["name"]
        await self._take_time("apply", name)
        live = made | {"metadata": made["metadata"] | {"resourceVersion": "1", "uid": f"deployment-{name}"}}
        self.made[kind.name, name] = live
        return live

    async def create(self, kind: Kind, made: Object) -> Object:
        await self._take_time("create", made["metadata"]["name"])
        return made

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        await self._take_time("get", name)
        return None

    async def _take_time(self, call: str, name: str) -> None:
        if self.hung(call, name):
            await asyncio.Event().wait()
        await asyncio.sleep(LATENCY_S)


def pod(model: str) -> Object:
    labels = {"conch.dev/model-deployment": model, "app.kubernetes.io/component": "engine"}
    meta = {"name": f"{model}-engine-1", "namespace": "ns", "uid": f"pod of {model}", "labels": labels}
    agent = {"name": "agent", "state": {"running": {}}}
    status = {"podIP": model, "initContainerStatuses": [agent]}
    made = {"metadata": {**meta, "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": status}
    return made_by(made, f"{model}-engine")


class FolderlessAgents(Agents):
    """Agents whose folder is missing; some say nothing at all."""

    def __init__(self) -> None:
        super().__init__(TOKENS)
        self.hung: set[str] = set()
        self.asked: list[str] = []

    async def source(self, agent: AgentAddress) -> SourceReport:
        self.asked.append(agent.host)
        if agent.host in self.hung:
            await asyncio.Event().wait()
        return SourceReport(fault=FaultReport(reason=Reason.FOLDER_MISSING, message="The folder does not exist."))


class EmptyRegistry:
    """Nothing has been published, and nothing is stored."""

    answered = True
    snapshot = Snapshot.EMPTY

    async def publish(self, models: Mapping[ModelId, RoutedModel]) -> int:
        return 1

    async def gateways(self) -> tuple[GatewayBeat, ...]:
        return ()

    async def has(self, name: Digest) -> bool:
        return False

    async def put(self, name: Digest, data: bytes) -> None:
        return None


class NoEngines:
    async def probe(self, target: Target) -> None:
        raise AssertionError("no engine runs here")


@dataclass
class World:
    """One leader with all its parts, on a slow API server."""

    server: SlowServer
    agents: FolderlessAgents
    status_writer: StatusWriter
    one_round: LeaderRound

    async def round_until(self, is_said: Callable[[], bool]) -> None:
        """Run rounds until something is said."""
        async with asyncio.timeout(60):
            while not is_said():
                await self.one_round.run()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    server, agents, registry = SlowServer(), FolderlessAgents(), EmptyRegistry()
    tasks: list[asyncio.Task[None]] = []

    def start(call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(call))
        return tasks[-1]

    background = Background(start, patience_s=0.3)
    async with Prober(NoEngines(), lambda: None) as prober:
        engines = KubernetesEngines(server, agents, RELEASE.engines, [None], background=background)
        sources = AgentSources(server, agents, background=background)
        writer = StatusWriter(server, "operator-1", background)
        ports = Ports(
            sources, engines, plan_workloads, registry, registry, registry, prober, tokenizer_of=sources.tokenizer_of
        )
        one_round = LeaderRound(
            api=server,
            engines=engines,
            sources=sources,
            pools=WorkerPools(server, RELEASE),
            reconciler=Reconciler(ports, background=background),
            status_writer=writer,
            registry=registry,
            autoscaler=Autoscaler(DemandBook(time.monotonic), lambda: None, ScalingMetrics.on(CollectorRegistry())),
            namespaces=[None],
        )
        yield World(server, agents, writer, one_round)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def names(count: int) -> list[str]:
    return [f"m{index}" for index in range(count)]


async def test_fifty_models_hear_their_first_word_at_once(world: World) -> None:
    tries: list[float] = []
    while len(tries) < 3:
        world.server.models.clear()
        world.server.add(*names(50))
        began = time.monotonic()
        for item in list(world.server.models.values()):
            world.status_writer.note(item)
        await eventually(lambda: len(world.server.reasons()) == 50, "all first words", timeout_s=60)
        tries.append(time.monotonic() - began)
    assert min(tries) <= FIRST_WORDS_S


async def test_the_first_word_does_not_wait_for_a_round_that_hangs(world: World) -> None:
    world.server.hung = lambda call, name: call == "list"
    world.server.add("m")
    hanging = asyncio.create_task(world.one_round.run())
    world.status_writer.note(world.server.models["m"])
    await eventually(lambda: world.server.reasons() == {"m": Reason.WAITING}, "the first word")
    assert not hanging.done()
    hanging.cancel()


async def test_the_first_word_replaces_no_later_one(world: World) -> None:
    world.server.add("m")
    seen = world.server.models["m"]
    world.server.start_pods()
    await world.round_until(lambda: world.server.reasons() == {"m": Reason.FOLDER_MISSING})
    world.status_writer.note(seen)
    await eventually(lambda: world.server.conflicts == 1, "the refusal of the old word")
    assert world.server.reasons() == {"m": Reason.FOLDER_MISSING}


HANGS: dict[str, Callable[[World], None]] = {
    "its agent": lambda world: world.agents.hung.add("m0"),
    "its status": lambda world: setattr(world.server, "hung", lambda call, name: (call, name) == ("patch", "m0")),
    "its objects": lambda world: setattr(
        world.server, "hung", lambda call, name: (call, name) == ("apply", "m0-engine")
    ),
}


@pytest.mark.parametrize("hang", HANGS.values(), ids=HANGS.keys())
async def test_what_hangs_about_one_model_keeps_no_reason_from_the_others(
    world: World, hang: Callable[[World], None]
) -> None:
    hang(world)
    world.server.add(*names(13))
    world.server.start_pods()
    others = set(names(13)) - {"m0"}
    await world.round_until(
        lambda: {name for name, reason in world.server.reasons().items() if reason == Reason.FOLDER_MISSING} >= others
    )


async def test_an_agent_that_hangs_is_asked_once_at_a_time(world: World) -> None:
    world.agents.hung.add("m0")
    world.server.add("m0", "m1")
    world.server.start_pods()
    await world.round_until(lambda: world.server.reasons().get("m1") == Reason.FOLDER_MISSING)
    await world.one_round.run()
    assert world.agents.asked.count("m0") == 1


async def test_reasons_of_many_models_come_as_soon_as_one(world: World) -> None:
    async def reasons_s(count: int) -> float:
        world.server.models.clear()
        world.server.add(*names(count))
        world.server.start_pods()
        began = time.monotonic()
        await world.round_until(lambda: list(world.server.reasons().values()) == [Reason.FOLDER_MISSING] * count)
        return time.monotonic() - began

    one, many = min([await reasons_s(1) for _ in range(3)]), min([await reasons_s(13) for _ in range(3)])
    assert many <= 3 * one
