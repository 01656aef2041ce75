"""One round of the operator: observe, plan, act, publish, describe; and the ports that it reads from and acts on.

Level-triggered: a round looks only at what is, so a start, an edited file, an ended process and the timer all run this
same function. Nothing here knows processes or Kubernetes; both are behind the `Cluster` port.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from conch_contracts.names import Digest, ModelId, ServedName
from conch_contracts.records import GatewayBeat, Pool
from conch_kit.bundles.archive import BundleError
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.snapshot import Snapshot
from conch_operator.probe.prober import Prober, Target
from conch_operator.reconcile.calls_in_flight import AWAITED, Background, CallsInFlight
from conch_operator.reconcile.plan import Acted, Plan, Planner, UnknownRoutes, served_models
from conch_operator.reconcile.probe_targets import external_targets, key_of, prompts_of, replaced_targets, targets_of
from conch_operator.reconcile.readiness import Published
from conch_operator.reconcile.route_writer import RouteWriter, WrittenRoutes
from conch_operator.reconcile.status import Statuses, describe
from conch_operator.reconcile.unchanged_models import UnchangedModels
from conch_operator.reconcile.withdrawals import LONGEST_WAIT_S, Withdrawals
from conch_operator.routes.name_claims import claims_of, names_awaited, names_gone
from conch_operator.state import (
    ClusterEngine,
    Desired,
    DesiredModel,
    EngineName,
    EnginePhase,
    Observed,
    ObservedEngine,
    RoutedModel,
    SourceFacts,
    SourceFault,
)
from conch_operator.timestamps import timestamp

log = logging.getLogger(__name__)

RETRY_S = 0.25
"""After which the registry is asked once more: a Redis that is slow for a moment makes no model unready."""

PATIENCE_S = 5.0
"""How long the registry may fail before a model is unready whose route stands there as it is to be; it counts from the
first round that found it so."""
_UNDERWAY = "it is still being fetched"
T = TypeVar("T")


class Cluster(Protocol):
    """The port through which a plan becomes real: processes of this machine (`local`), or `kubernetes`.

    It keeps what it was told to run alive by itself, as a kubelet does: it starts a crashed engine again and reports
    that it did. Every call is idempotent and returns before its effect is complete.
    """

    async def engines(self) -> Sequence[ClusterEngine]:
        """Return every engine that was started and has not gone yet: a complete list."""

    async def act(self, steps: Plan) -> Acted:
        """Take a plan's steps; return why those of some models were refused, and what engines of each should be."""

    async def mark_serving(self, names: frozenset[EngineName]) -> None:
        """Learn which engines requests reach now."""


class Publisher(Protocol):
    """Writes the complete list of models, and knows what the gateways have applied."""

    async def publish(self, models: Mapping[ModelId, RoutedModel], unknown: UnknownRoutes) -> int:
        """Replace the whole list and return the registry's revision; who knows an `unknown` route keeps it."""

    async def gateways(self) -> tuple[GatewayBeat, ...]:
        """Return what each gateway last said."""


class BundlePublisher(Protocol):
    """Holds tokenizer bundles by digest."""

    async def has(self, name: Digest) -> bool:
        """Return whether a bundle is there."""

    async def put(self, name: Digest, data: bytes) -> None:
        """Store a bundle."""


class RegistryView(Protocol):
    """Knows which worker processes live."""

    @property
    def snapshot(self) -> Snapshot:
        """Return the latest known content of the registry."""

    @property
    def answered(self) -> bool:
        """Return whether the registry has been read once, empty or not."""


class SourceUnavailable(Exception):
    """A model's folder cannot be reached at the moment."""


class Sources(Protocol):
    """Knows the folders of models."""

    async def read_all(self, models: Sequence[DesiredModel]) -> Mapping[ModelId, SourceFacts | SourceFault]:
        """Return what the folders of these models say; one that has not been read yet is left out."""

    async def bundle(self, facts: SourceFacts) -> tuple[Digest, bytes]:
        """Return the tokenizer bundle of a folder; raises SourceUnavailable."""


class Reservations(Protocol):
    """Keeps the names of models that were deleted a moment ago."""

    async def renew(
        self, gone: Mapping[ServedName, ModelId], back: Mapping[ModelId, Set[ServedName]]
    ) -> Mapping[ServedName, ModelId]:
        """Reserve the names of models that have gone, each once, and return all that are reserved.

        `back`: models that are there, with the names that they want and are not served under yet. Raises RegistryError
        and RegistryUnavailable.
        """


class Scaling(Protocol):
    """Decides how many engines models have, where their load decides it."""

    async def apply(self, desired: Desired, observed: Observed, before: Statuses) -> Desired:
        """Return the models with what was decided about each."""


@dataclass(frozen=True, slots=True)
class Ports:
    """All that a round reads from and acts on."""

    sources: Sources
    cluster: Cluster
    plan: Planner
    """How to get from what is there to what is wanted, on this cluster. It is called in a thread: what it
    changes, nobody else may touch."""
    publisher: Publisher
    reader: RegistryView
    bundles: BundlePublisher
    prober: Prober
    tokenizer_of: Callable[[EngineName], Digest | None]
    """Returns the tokenizer of the folder that an engine was started with; None where nobody knows."""
    clock: Callable[[], float] = time.monotonic
    reservations: Reservations | None = None
    """None: a name is free as soon as its model has gone."""
    scaling: tuple[Scaling, ...] = ()
    """Each for models of its own; one for which none decides has its minimum, and one engine at least."""


class Reconciler:
    """Runs rounds, and carries from one to the next only what cannot be observed again."""

    def __init__(
        self,
        ports: Ports,
        *,
        longest_withdrawal_s: float = LONGEST_WAIT_S,
        retry_s: float = RETRY_S,
        patience_s: float = PATIENCE_S,
        background: Background = AWAITED,
    ) -> None:
        self._ports = ports
        self._retry_s = retry_s
        self._patience_s = patience_s
        self._written: Mapping[ModelId, RoutedModel] | None = None
        """The routes that were written last."""
        self._failing_since_s: float | None = None
        """When the first round failed to write them after that."""
        self._round_in = background.changed_in
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="round")
        """One of its own: what others do in threads keeps no round waiting."""
        self._withdrawals = Withdrawals(longest_withdrawal_s)
        self._storing: CallsInFlight[Digest, str | None] = CallsInFlight(background)
        self._unstored: Mapping[Digest, str] = {}
        self._found: Mapping[ModelId, RoutedModel] | None = None
        self._reserved: Mapping[ServedName, ModelId] = {}
        self._unreserved: Mapping[ServedName, ModelId] = {}
        self._acted = Acted()
        self._unchanged = UnchangedModels()
        self._routes = RouteWriter(
            self._publish_retried, lambda engine: ports.prober.verdict(key_of(engine)), ports.tokenizer_of
        )
        self._routing: CallsInFlight[str, None] = CallsInFlight(replace(background, changed=lambda: None))
        ports.prober.answered = lambda _: self.look_for_answers()
        self._targets_of: Callable[[Sequence[ClusterEngine]], Mapping[Hashable, Target]] = lambda _: {}
        """Returns how engines are asked, by what the last round knew."""

    async def reconcile(self, desired: Desired, before: Statuses) -> Statuses:
        """Take the next safe steps towards what is desired, and return the status of every wanted model."""
        await self._routing.run({})  # a fault in one that has ended is this round's
        self._routes.begin_round()
        observed = await self._observe(desired)
        await self._routes.let_answers_go_first()
        unstored, error = await self._store_bundles(desired, observed)
        observed = replace(observed, unstored=unstored, rejected=self._acted.rejected, specs=self._acted.specs)
        for scaling in self._ports.scaling:
            desired = await scaling.apply(desired, observed, before)
        await self._routes.let_answers_go_first()
        steps = await self._in_thread(partial(self._ports.plan, desired, observed))
        for reason in steps.why:
            log.debug(reason)
        await self._routes.let_answers_go_first()
        acted = self._acted = await self._ports.cluster.act(steps)
        observed = replace(observed, rejected=acted.rejected, specs=acted.specs, unapplied=acted.unapplied)
        published = await self._publish(steps, observed, error)
        await self._routes.let_answers_go_first()
        return await self._in_thread(
            partial(describe, desired, observed, published, before, timestamp(), self._unchanged)
        )

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Do what takes long with many models beside the loop: no held request and no wish waits for it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def engine_started(self, engine: ClusterEngine) -> None:
        """Begin to ask an engine that runs since a round looked."""
        self._routes.note_start(engine)
        self._ports.prober.add_targets(self._targets_of([engine]))

    @property
    def awaits_answer(self) -> bool:
        """Whether a request that is held may be answered in a moment, without a round."""
        return self._routes.awaits_answer

    def look_for_answers(self) -> None:
        """Begin to write the routes of engines that answer since the last round, and whose tokenizer is known."""
        self._routes.note_answer()
        self._routing.start({"first answers": self._routes.write_first_answers})

    async def _observe(self, desired: Desired) -> Observed:
        ports = self._ports
        sources = await ports.sources.read_all(desired.models)
        engines = _of_todays_objects(await ports.cluster.engines(), desired)
        snapshot = ports.reader.snapshot
        replaced = replaced_targets(desired, snapshot)
        specs = {model.id: model.deployment.spec for model in desired.models}
        prompts = prompts_of(sources, snapshot)
        self._targets_of = partial(targets_of, specs, prompts)
        asked = self._targets_of(self._routes.with_started(engines)) | external_targets(desired, prompts)
        ports.prober.set_targets({**asked, **{key: replaced[key] for key in replaced}})
        gone = self._withdrawals.seen(await self._gateways(), ports.clock())
        return Observed(
            sources=sources,
            engines=tuple(self._observed_engine(engine, gone) for engine in engines),
            external={model.id: ports.prober.verdict(model.id) for model in desired.models if _is_external(model)},
            replaced={key.model: ports.prober.verdict(key) for key in replaced},
            routed=self._routed_at_first(),
            workers={pool: len(snapshot.workers.get(pool, ())) for pool in Pool},
            routes=snapshot.routes,
            held_engines=snapshot.engines,
            reserved=await self._reserve(desired),
            gateways=self._withdrawals.gateways,
            registry_answered=ports.reader.answered,
            revision=snapshot.revision,
        )

    async def _reserve(self, desired: Desired) -> Mapping[ServedName, ModelId]:
        """Return the names of models that were deleted a moment ago; those that cannot be stored are tried again."""
        ports = self._ports
        if ports.reservations is None or not ports.reader.answered:
            return {}
        routes = ports.reader.snapshot.routes
        gone = {**names_gone(desired, routes), **self._unreserved}
        back = names_awaited(desired, routes)
        try:
            self._reserved, self._unreserved = await ports.reservations.renew(gone, back), {}
        except (RegistryUnavailable, RegistryError):
            self._unreserved = gone
        return {**gone, **self._reserved}

    def _routed_at_first(self) -> Mapping[ModelId, RoutedModel]:
        """Return what the registry held when it was first read: the work of the operator before this one."""
        snapshot = self._ports.reader.snapshot
        if self._found is None and self._ports.reader.answered:
            routes = snapshot.routes.items()
            self._found = {model: (route, snapshot.engines.get(model, ())) for model, route in routes}
        return self._found or {}

    def _observed_engine(self, engine: ClusterEngine, gone: frozenset[EngineName]) -> ObservedEngine:
        return ObservedEngine(
            engine=engine,
            probe=self._ports.prober.verdict(key_of(engine)),
            withdrawn=engine.name in gone,
            tokenizer=self._ports.tokenizer_of(engine.name),
        )

    async def _gateways(self) -> tuple[GatewayBeat, ...]:
        try:
            return await self._ports.publisher.gateways()
        except (RegistryUnavailable, RegistryError):
            return ()

    async def _store_bundles(self, desired: Desired, observed: Observed) -> tuple[Mapping[Digest, str], str | None]:
        """Store each bundle that is not there; return those that cannot be had, and why the registry cannot be used."""
        if not self._ports.reader.answered:
            return {}, "it has not been read yet"
        tokenizers = await self._in_thread(partial(_tokenizers, desired, observed))
        try:
            said = await self._storing.run(
                {digest: partial(self._store, facts) for digest, facts in tokenizers.items()}
            )
        except (RegistryUnavailable, RegistryError) as unavailable:
            return self._unstored, str(unavailable)
        routed = {route.tokenizer_digest for route in observed.routes.values()}  # so it is there, as far as is known
        underway = dict.fromkeys(self._storing.waiting - routed, _UNDERWAY)
        causes = {**underway, **self._unstored, **said}
        self._unstored = {
            digest: cause for digest, cause in causes.items() if digest in tokenizers and cause is not None
        }
        return self._unstored, None

    async def _store(self, facts: SourceFacts) -> str | None:
        """Store a bundle that is not there; return why it cannot be had."""
        if await self._retried(partial(self._ports.bundles.has, facts.digest)):
            return None
        try:
            _, data = await self._ports.sources.bundle(facts)
            await self._ports.bundles.put(facts.digest, data)
        except (SourceUnavailable, BundleError) as cause:
            log.warning("A tokenizer bundle cannot be had.", extra={"digest": facts.digest, "error": str(cause)})
            return str(cause)
        return None

    async def _publish(self, steps: Plan, observed: Observed, error: str | None) -> Published:
        """Write the routes, unless something is known to be wrong with the registry."""
        written: WrittenRoutes | None = None
        if error is None:
            try:
                written = await self._routes.write(steps, observed)
                await self._ports.cluster.mark_serving(_reached(written.routes, steps.unknown, observed))
            except (RegistryUnavailable, RegistryError) as unavailable:
                error = str(unavailable)
        else:
            await self._routes.stop()
        now_s = self._ports.clock()
        self._withdrawals.note(steps.withdraw, None if written is None else written.revision, now_s)
        if written is not None:
            self._written, self._failing_since_s = written.routes, None
            return Published(frozenset(written.routes))
        if self._failing_since_s is None:
            self._failing_since_s = now_s
            self._round_in(self._patience_s)
        routes = self._written
        if routes is None or now_s - self._failing_since_s >= self._patience_s:
            return Published(frozenset(), error)
        return Published(frozenset(model for model, routed in steps.routes.items() if routes.get(model) == routed))

    async def _publish_retried(self, routes: Mapping[ModelId, RoutedModel], unknown: UnknownRoutes) -> int:
        return await self._retried(partial(self._ports.publisher.publish, routes, unknown))

    async def _retried(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the registry something that may be asked again; raises RegistryError and RegistryUnavailable."""
        try:
            return await ask()
        except RegistryUnavailable:
            await asyncio.sleep(self._retry_s)
            return await ask()


def _tokenizers(desired: Desired, observed: Observed) -> dict[Digest, SourceFacts]:
    """Return the facts of everything that is to be served, by the tokenizer."""
    models = served_models(desired, claims_of(desired, observed))
    found = (observed.sources.get(model.id) for model in models)
    return {facts.digest: facts for facts in found if isinstance(facts, SourceFacts)}


def _reached(
    routes: Mapping[ModelId, RoutedModel], unknown: UnknownRoutes, observed: Observed
) -> frozenset[EngineName]:
    listed = (*(engines for _, engines in routes.values()), *unknown.values())
    addresses = {engine.grpc for engines in listed for engine in engines}
    return frozenset(engine.name for engine in observed.engines if engine.engine.grpc in addresses)


def _of_todays_objects(engines: Sequence[ClusterEngine], desired: Desired) -> list[ClusterEngine]:
    """Return the engines; those of an object that was deleted serve nothing for the one that has its name now."""
    created = {model.id: model.created for model in desired.models}

    def leaves_for_good(engine: ClusterEngine) -> bool:
        older = engine.created is not None and engine.created < created.get(engine.model, 0)
        return older and engine.phase is EnginePhase.LEAVING

    return [replace(engine, phase=EnginePhase.STOPPING) if leaves_for_good(engine) else engine for engine in engines]


def _is_external(model: DesiredModel) -> bool:
    return model.deployment.spec.engine.external is not None
