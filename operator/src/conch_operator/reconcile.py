"""One round of the operator: observe, plan, act, publish, tell.

Level-triggered: a round looks only at what is, so a start, an edited file, an ended process and the timer all run this
same function. Nothing here knows processes or Kubernetes; both are behind the `Cluster` port.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from conch_contracts.names import Digest, EngineAddress, ModelId
from conch_contracts.records import Dialect, GatewayBeat, Pool
from conch_kit.bundles import pack
from conch_kit.redis_client import RegistryError, RegistryUnavailable
from conch_kit.snapshot import Snapshot
from conch_operator.cluster import Cluster
from conch_operator.plan import Plan, RoutedModel, plan
from conch_operator.probe import Prober, Target
from conch_operator.routes import triton_model
from conch_operator.source import SourceReader
from conch_operator.state import (
    ClusterEngine,
    Desired,
    DesiredModel,
    EngineName,
    EnginePhase,
    Observed,
    ObservedEngine,
    Published,
    SourceFacts,
    SourceFault,
)
from conch_operator.status import Statuses, describe
from conch_operator.withdrawals import Withdrawals

log = logging.getLogger(__name__)


class Publisher(Protocol):
    """Writes the complete list of routes, and knows what the gateways have applied."""

    async def publish(self, models: Mapping[ModelId, RoutedModel]) -> int:
        """Replace all routes and return the registry's revision."""

    async def gateways(self) -> tuple[GatewayBeat, ...]:
        """Return what each gateway last said."""


class Bundles(Protocol):
    """Holds tokenizer bundles by digest."""

    async def has(self, name: Digest) -> bool:
        """Return whether a bundle is there."""

    async def put(self, name: Digest, data: bytes) -> None:
        """Store a bundle."""


class Reader(Protocol):
    """Knows which worker processes live."""

    @property
    def snapshot(self) -> Snapshot:
        """Return the latest known content of the registry."""


@dataclass(frozen=True, slots=True)
class Ports:
    """All that a round reads from and acts on."""

    cluster: Cluster
    publisher: Publisher
    reader: Reader
    bundles: Bundles
    prober: Prober
    clock: Callable[[], float] = time.monotonic


class Reconciler:
    """Runs rounds, and carries from one to the next only what cannot be observed again."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._sources = SourceReader()
        self._withdrawals = Withdrawals()
        self._statuses: Statuses = {}

    async def reconcile(self, desired: Desired) -> Statuses:
        """Take the next safe steps towards what is desired and return what is to be said about it."""
        observed = await self._observe(desired)
        steps = plan(desired, observed)
        await self._act(steps)
        published = await self._publish(steps, observed)
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._statuses = describe(desired, observed, published, self._statuses, now)
        return self._statuses

    async def _observe(self, desired: Desired) -> Observed:
        ports = self._ports
        sources = await asyncio.to_thread(self._read_sources, desired)
        engines = await ports.cluster.engines()
        ports.prober.watch(_targets(desired, engines))
        gone = self._withdrawals.seen(await self._gateways(), ports.clock())
        return Observed(
            sources=sources,
            engines=tuple(self._observed(engine, gone) for engine in engines),
            external={model.id: ports.prober.verdict(model.id) for model in desired.models if _is_external(model)},
            workers={pool: len(ports.reader.snapshot.workers.get(pool, ())) for pool in Pool},
            routes=ports.reader.snapshot.routes,
        )

    def _read_sources(self, desired: Desired) -> dict[ModelId, SourceFacts | SourceFault]:
        return {model.id: self._sources.read(model) for model in desired.models}

    def _observed(self, engine: ClusterEngine, gone: frozenset[EngineName]) -> ObservedEngine:
        return ObservedEngine(
            engine=engine,
            probe=self._ports.prober.verdict(_key(engine)),
            withdrawn=engine.component.name in gone,
        )

    async def _gateways(self) -> tuple[GatewayBeat, ...]:
        try:
            return await self._ports.publisher.gateways()
        except (RegistryUnavailable, RegistryError):
            return ()

    async def _act(self, steps: Plan) -> None:
        for reason in steps.why:
            log.debug(reason)
        for component in steps.start:
            await self._ports.cluster.start(component)
        for name in steps.restart:
            await self._ports.cluster.restart(name)
        for name in steps.stop:
            await self._ports.cluster.stop(name)

    async def _publish(self, steps: Plan, observed: Observed) -> Published:
        revision: int | None = None
        error: str | None = None
        try:
            for model in steps.routes:
                if isinstance(facts := observed.sources[model], SourceFacts):
                    await self._ensure_bundle(facts)
            revision = await self._ports.publisher.publish(steps.routes)
        except (RegistryUnavailable, RegistryError) as unavailable:
            error = str(unavailable)
        self._withdrawals.note(steps.withdraw, revision, self._ports.clock())
        return Published(frozenset(steps.routes) if error is None else frozenset(), error)

    async def _ensure_bundle(self, facts: SourceFacts) -> None:
        """Store the bundle unless it is there; the next round sees to a folder that changes meanwhile."""
        if not await self._ports.bundles.has(facts.digest):
            digest, data = await asyncio.to_thread(pack, facts.folder)
            await self._ports.bundles.put(digest, data)


def _targets(desired: Desired, engines: Sequence[ClusterEngine]) -> dict[Hashable, Target]:
    targets: dict[Hashable, Target] = {
        _key(engine): Target(engine.grpc, engine.component.spec.triton_model, Dialect.TOKENS)
        for engine in engines
        if engine.phase is EnginePhase.RUNNING
    }
    for model in desired.models:
        external = model.deployment.spec.engine.external
        if external is not None and external.grpc is not None and external.dialect is not None:
            targets[model.id] = Target(EngineAddress(external.grpc), triton_model(model), external.dialect)
    return targets


def _key(engine: ClusterEngine) -> Hashable:
    return engine.component.name, engine.incarnation


def _is_external(model: DesiredModel) -> bool:
    return model.deployment.spec.engine.external is not None
