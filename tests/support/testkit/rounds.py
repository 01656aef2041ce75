"""Rounds of the operator's loop against a cluster, a registry and engines that do as they are told."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest, EngineAddress, ModelId, PoolId
from conch_contracts.records import GatewayBeat, Heartbeat, Pool
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_kit.bundles.archive import BundleError
from conch_kit.redis.errors import RegistryUnavailable
from conch_kit.registry.snapshot import Snapshot
from conch_operator.local.model_folders import ModelFolders
from conch_operator.model_folder.caching_reader import CachingFolderReader
from conch_operator.probe.prober import Cadence, NoAnswer, Prober, Target
from conch_operator.reconcile.plan import Acted, Plan, UnknownRoutes, plan_processes
from conch_operator.reconcile.reconciler import Ports, Reconciler, Scaling
from conch_operator.reconcile.status import Statuses
from conch_operator.routes.known_routes import KnownRoutes
from conch_operator.state import (
    ClusterEngine,
    Desired,
    DesiredModel,
    EngineName,
    EnginePhase,
    Fault,
    RoutedModel,
)
from testkit.builders.model_deployments import model_deployment


@dataclass
class FakeCluster:
    running: dict[EngineName, ClusterEngine] = field(default_factory=dict)
    stopped: list[EngineName] = field(default_factory=list)
    serving: frozenset[EngineName] = frozenset()
    tokenizers: dict[EngineName, Digest] = field(default_factory=dict)
    broken: dict[ModelId, Fault] = field(default_factory=dict)
    """Models that cannot be started."""
    rejected: dict[ModelId, Fault] = field(default_factory=dict)
    """Models whose objects are refused."""

    async def engines(self) -> tuple[ClusterEngine, ...]:
        return tuple(self.running.values())

    async def act(self, steps: Plan) -> Acted:
        for new in steps.start:
            address = EngineAddress(f"127.0.0.1:{9000 + len(self.running)}")
            fault = self.broken.get(new.model)
            phase = EnginePhase.RUNNING if fault is None else EnginePhase.BLOCKED
            engine = ClusterEngine(new.name, new.model, new.spec_hash, new.contract, phase, address, 1, fault=fault)
            self.running[new.name] = replace(engine, folder=new.recipe.folder)
            self.tokenizers[new.name] = new.tokenizer
        for name in steps.restart:
            self.running[name] = replace(self.running[name], incarnation=self.running[name].incarnation + 1)
        for name in steps.stop:
            self.stopped.append(name)
            self.running[name] = replace(self.running[name], phase=EnginePhase.STOPPING)
        return Acted(dict(self.rejected), steps.specs)

    async def mark_serving(self, names: frozenset[EngineName]) -> None:
        self.serving = names


@dataclass
class FakeRegistry:
    """Publisher, bundles and reader in one; a gateway applies what is published when told to."""

    routes: dict[ModelId, RoutedModel] = field(default_factory=dict)
    unknown: UnknownRoutes = field(default_factory=dict)
    revision: int = 0
    applied: int = 0
    down: bool = False
    answered: bool = True
    stored: set[Digest] = field(default_factory=set)
    full: bool = False
    slow: int = 0
    """So many answers come too late."""
    written: list[dict[ModelId, RoutedModel]] = field(default_factory=list)
    """Each list that was published."""

    async def publish(self, models: Mapping[ModelId, RoutedModel], unknown: UnknownRoutes) -> int:
        self._answer()
        self.unknown = unknown
        self.revision += dict(models) != self.routes
        self.routes = dict(models)
        self.written.append(self.routes)
        return self.revision

    async def gateways(self) -> tuple[GatewayBeat, ...]:
        return (GatewayBeat(id="g", sequence=1, revision=self.applied),)

    async def has(self, name: Digest) -> bool:
        self._answer()
        return name in self.stored

    def _answer(self) -> None:
        self.slow -= 1
        if self.down or self.slow >= 0:
            raise RegistryUnavailable("refused")

    async def put(self, name: Digest, data: bytes) -> None:
        if self.full:
            raise BundleError("the bundle is too large")
        self.stored.add(name)

    @property
    def snapshot(self) -> Snapshot:
        beat: Any = Heartbeat.model_validate({"url": "http://h:1", "sequence": 1})
        workers = {Pool.LLM: (beat,), Pool.EMBED: (beat,), Pool.TOKENIZER: (beat,)}
        routes = {model: route for model, (route, _) in self.routes.items()}
        engines = {model: engines for model, (_, engines) in self.routes.items()}
        return replace(Snapshot.EMPTY, revision=self.revision, workers=workers, routes=routes, engines=engines)

    def tokenizer(self, model: str = "local/tiny") -> Digest:
        return self.routes[ModelId(model)][0].tokenizer_digest

    def addresses(self, model: str = "local/tiny") -> list[str]:
        return [engine.grpc for engine in self.routes[ModelId(model)][1]]


@dataclass
class WillingEngines:
    """Answer, but for those at these addresses."""

    gone: set[str] = field(default_factory=set)
    cause: NoAnswer = field(default_factory=lambda: NoAnswer(Reason.ENGINE_UNREACHABLE, "Nothing answers."))
    """What there is to say of these."""

    async def probe(self, target: Target) -> None:
        await asyncio.sleep(0)
        if target.address in self.gone:
            raise self.cause


class World:
    """Everything around one Reconciler."""

    def __init__(self, folder: Path, prober: Prober, willing: WillingEngines, scaling: Scaling | None = None) -> None:
        self.willing = willing
        self.cluster = FakeCluster()
        self.registry = FakeRegistry()
        self.folder = folder
        registry, sources = self.registry, ModelFolders(CachingFolderReader())
        tokenizer_of = self.cluster.tokenizers.get
        self.ports = Ports(
            sources,
            self.cluster,
            partial(plan_processes, known=KnownRoutes()),
            registry,
            registry,
            registry,
            prober,
            tokenizer_of,
            lambda: 0.0,
            scaling=() if scaling is None else (scaling,),
        )
        self.reconciler = Reconciler(self.ports, retry_s=0, patience_s=0)
        self.statuses: Statuses = {}
        self.pools: Mapping[PoolId, EnginePoolSpec] = {}

    async def rounds(self, *models: DesiredModel, count: int = 6) -> Any:
        for _ in range(count):
            self.statuses = await self.reconciler.reconcile(Desired(models, pools=self.pools), self.statuses)
            for _ in range(5):
                await asyncio.sleep(0)
        return self.statuses

    def model(self, **spec: Any) -> DesiredModel:
        return DesiredModel(model_deployment(**spec), self.folder, 1)


@asynccontextmanager
async def world_of(tmp_path: Path, scaling: Scaling | None = None) -> AsyncIterator[World]:
    """Yield a world with the folder of one tiny model."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}}))
    (folder / "config.json").write_text(json.dumps({"vocab_size": 1, "max_position_embeddings": 8}))
    (folder / "model.safetensors").write_bytes(b"")
    willing = WillingEngines()
    at_once = Cadence(starting_s=0, starting_per_s=inf, serving_s=0, serving_per_s=inf)
    async with Prober(willing, lambda: None, at_once) as prober:
        yield World(tmp_path, prober, willing, scaling)
