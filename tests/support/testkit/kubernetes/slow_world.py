"""An operator that leads, with all its parts, on an API server in memory that takes its time, and beside agents."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from conch_contracts.conditions import Reason
from conch_contracts.names import POOL_LABEL, Digest, ModelId
from conch_contracts.records import GatewayBeat
from conch_kit.registry.snapshot import Snapshot
from conch_operator.agent.messages import FaultReport, SourceReport
from conch_operator.engine_pools.residents import Residents
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import DEPLOYMENT, MODEL_DEPLOYMENT, Kind, Object
from conch_operator.kubernetes.engines import KubernetesEngines
from conch_operator.kubernetes.leader_loop import LeaderRound
from conch_operator.kubernetes.pods.agent_client import Agents, AgentUnavailable
from conch_operator.kubernetes.pods.pod_status import AgentAddress
from conch_operator.kubernetes.pools.pool_objects_kept import KeptPoolObjects
from conch_operator.kubernetes.pools.pool_pods import PoolPods
from conch_operator.kubernetes.pools.pool_status_writer import PoolStatusWriter
from conch_operator.kubernetes.pools.pooled_engines import PooledEngines
from conch_operator.kubernetes.sources import AgentSources
from conch_operator.kubernetes.status_writer import StatusWriter
from conch_operator.kubernetes.worker_pools import WorkerPools
from conch_operator.metrics import OperatorMetrics
from conch_operator.probe.prober import Prober, Target
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.reconcile.plan import UnknownRoutes, plan_workloads
from conch_operator.reconcile.reconciler import Ports, Reconciler
from conch_operator.scaling.autoscaler import Autoscaler
from conch_operator.scaling.demand import DemandBook
from conch_operator.settings import ReleaseFile
from conch_operator.state import RoutedModel
from testkit.builders.every_runtime import TOKENS
from testkit.builders.owned_pods import deployments_of, made_by, replica_sets_of

_POLICY = {"enabled": True, "from": [{"podSelector": {}}], "agentFrom": [{"podSelector": {}}]}
_RELEASE = ReleaseFile.model_validate(
    {
        "release": {"name": "conch", "namespace": "conch"},
        "engines": {"agentImage": "a", "images": {"cpu": "c"}, "networkPolicy": _POLICY},
    }
)


class SlowServer(KubernetesApi):
    """An API server in memory that takes a while for each call, and longer for those about some names."""

    def __init__(self, latency_s: float) -> None:
        super().__init__()
        self.latency_s = latency_s
        self.models: dict[str, Object] = {}
        self.pods: list[Object] = []
        self.made: dict[tuple[str, str], Object] = {}
        self.hung: Callable[[str, str], bool] = lambda call, name: False
        self.hang_s: float | None = None
        """How long such calls take before they fail; None: they never end."""
        self.kubelet: Callable[[Object], None] = lambda deployment: None
        """Hears of each Deployment that is made."""
        self.version = 1

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
        await self._take_time("list", fields or kind.name)
        if POOL_LABEL in (labels or ""):
            return []
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

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object, subresource: str = "") -> Object:
        await self._take_time("patch", name)
        now = self.models[name]
        self.version += 1
        meta = now["metadata"] | {"resourceVersion": str(self.version)}
        self.models[name] = now | {"metadata": meta, "status": change["status"]}
        return self.models[name]

    async def apply(self, kind: Kind, made: Object) -> Object:
        name = made["metadata"]["name"]
        await self._take_time("apply", name)
        live = made | {
            "metadata": made["metadata"] | {"resourceVersion": "1", "generation": 1, "uid": f"deployment-{name}"}
        }
        if kind is DEPLOYMENT and (kind.name, name) not in self.made:
            self.kubelet(made)
        self.made[kind.name, name] = live
        return live

    async def create(self, kind: Kind, made: Object) -> Object:
        await self._take_time("create", made["metadata"]["name"])
        return made

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        await self._take_time("get", name)
        return self.models.get(name) if kind is MODEL_DEPLOYMENT else None

    async def _take_time(self, call: str, name: str) -> None:
        if self.hung(call, name):
            await hang(self.hang_s)
            raise ApiError(504, "a webhook has not answered")
        await asyncio.sleep(self.latency_s)


async def hang(seconds: float | None) -> None:
    """Wait so long; for ever when that is None."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)


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
        self.hang_s: float | None = None
        self.asked: list[str] = []

    async def source(self, agent: AgentAddress) -> SourceReport:
        self.asked.append(agent.host)
        if agent.host in self.hung:
            await hang(self.hang_s)
            raise AgentUnavailable(f"the agent at {agent.host} does not answer")
        return SourceReport(fault=FaultReport(reason=Reason.FOLDER_MISSING, message="The folder does not exist."))


class EmptyRegistry:
    """Nothing has been published, and nothing is stored."""

    answered = True
    snapshot = Snapshot.EMPTY

    async def publish(self, models: Mapping[ModelId, RoutedModel], unknown: UnknownRoutes) -> int:
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


@asynccontextmanager
async def slow_world(
    latency_s: float, patience_s: float, changed: Callable[[], None] = lambda: None
) -> AsyncIterator[World]:
    """Give an operator whose rounds a test runs; each call to its API server takes `latency_s`."""
    server, agents, registry = SlowServer(latency_s), FolderlessAgents(), EmptyRegistry()
    tasks: list[asyncio.Task[None]] = []

    def start(call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(call))
        return tasks[-1]

    background = Background(start, changed, patience_s)
    async with Prober(NoEngines(), changed) as prober:
        engines = KubernetesEngines(server, agents, _RELEASE.engines, [None], background=background)
        sources = AgentSources(server, agents, background=background)
        pool_pods = PoolPods(server, agents, [None], background=background)
        kept = KeptPoolObjects(server, agents.tokens, _RELEASE.engines, [None], background=background)
        pooled = PooledEngines(kept, pool_pods, agents, background, fence=1)
        writer = StatusWriter(server, "operator-1", background)
        ports = Ports(
            sources, engines, plan_workloads, registry, registry, registry, prober, tokenizer_of=sources.tokenizer_of
        )
        metrics = OperatorMetrics.on(CollectorRegistry())
        one_round = LeaderRound(
            api=server,
            engines=engines,
            sources=sources,
            worker_pools=WorkerPools(server, _RELEASE),
            reconciler=Reconciler(ports, background=background),
            status_writer=writer,
            registry=registry,
            autoscaler=Autoscaler(DemandBook(time.monotonic), lambda: None, metrics.scaling),
            residents=Residents(DemandBook(time.monotonic), lambda: None, metrics.pools),
            pooled=pooled,
            pool_statuses=PoolStatusWriter(server, pooled, pool_pods, background),
            namespaces=[None],
        )
        yield World(server, agents, writer, one_round)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
