"""What the holder of the Lease does: rounds, at every change and now and then without one.

A round begins with complete lists of everything, so it depends on nothing that has happened. Watches keep them
(`api/caching_client`), so it waits for no list of the API server's; while one cannot be kept, rounds fail. A round that
fails is tried again, a little later each time, or when such a list is kept again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from conch_contracts.names import ModelId
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.snapshot import Snapshot
from conch_kit.side_by_side import together
from conch_kit.timed_waits import wait_at_most
from conch_operator.engine_pools.residents import Residents
from conch_operator.kubernetes.api.backoff import Backoff
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import ENGINE_POOL, MODEL_DEPLOYMENT, Kind, Object
from conch_operator.kubernetes.desired_models import SpecReader, Wanted
from conch_operator.kubernetes.engines import KubernetesEngines
from conch_operator.kubernetes.long_lived import LongLived
from conch_operator.kubernetes.pools.pool_status_writer import PoolStatusWriter
from conch_operator.kubernetes.pools.pooled_engines import PooledEngines
from conch_operator.kubernetes.pools.wanted_pools import WantedPools, read_pools
from conch_operator.kubernetes.sources import AgentSources
from conch_operator.kubernetes.status_writer import StatusWriter
from conch_operator.kubernetes.worker_pools import WorkerPools
from conch_operator.metrics import OperatorMetrics
from conch_operator.reconcile.moment import Moment
from conch_operator.reconcile.reconciler import Reconciler, RegistryView
from conch_operator.reconcile.status import ModelStatus, Statuses
from conch_operator.scaling.autoscaler import Autoscaler

log = logging.getLogger(__name__)

LEAST_PAUSE_S = 0.25
"""Between two rounds, so that a burst of changes is seen to together."""
AWAITED_PAUSE_S = 0.01
"""The same while a request is held for an engine."""
EDITED_PAUSE_S = 0.05
"""The same where a model has been edited."""
EDITED_PART = 0.25
"""So long a pause for an edit is at least, as a part of how long the last round took."""
PAUSE_PART = 2.0
"""So many times as long as the last round took is a pause."""
PAUSE_PART_OF_MANY = 6.0
"""The same with many models, which start and are routed beside rounds; but not while a request is held and there are
EnginePools, whose models rounds load."""
MANY = 100
"""More models than that are many."""
LOOK_S = 0.1
"""Within a pause, between two looks whether a request is held by now."""
LONGEST_PAUSE_S = 2.0
"""However long the last round took."""
_NOT_DEFINED = 404
"""What the API server says of a kind that it does not know: the definitions may be those of an earlier version."""
LONGEST_ROUND_S = 300.0
"""Every call of a round has a deadline of its own; a round of a thousand models has taken some seconds at most."""
UNSETTLED_S = 1.0
"""Until the next round while a model is not ready, or not all there for which its spec asks."""


class RoundHangs(Exception):
    """A round that does not end; only a new process can be trusted to do better."""


@dataclass(slots=True)
class LeaderRound:
    """One round: reads everything, lets the reconciler decide and act, and says what became of it."""

    api: KubernetesApi
    engines: KubernetesEngines
    sources: AgentSources
    worker_pools: WorkerPools
    reconciler: Reconciler
    status_writer: StatusWriter
    registry: RegistryView
    autoscaler: Autoscaler
    """Runs beside the rounds, for as long as they do."""
    residents: Residents
    """Likewise."""
    pooled: PooledEngines
    pool_statuses: PoolStatusWriter
    namespaces: Sequence[str | None]
    namespaced_names: bool = False
    """Whether models are served under names that begin with their namespace."""
    _specs: SpecReader = field(default_factory=SpecReader, init=False)
    _unknown: Mapping[ModelId, tuple[str, ...]] = field(default_factory=dict, init=False)
    _pools: WantedPools = field(default_factory=WantedPools, init=False)
    _said: Mapping[str, ModelStatus] = field(default_factory=dict, init=False)
    """The status that the last round had for each object, by its uid: its write may still be under way."""

    async def run(self) -> Statuses:
        """Run it and return what was said about each model."""
        pods, pools, models = await together(
            self.engines.observe(), self._observe_pools(), self._list(MODEL_DEPLOYMENT)
        )
        wanted = self._specs.read(models, namespaced=self.namespaced_names)
        self._log_unknown(wanted)
        await together(
            self.worker_pools.ensure(wanted.kinds, _loads(self.registry.snapshot)),
            self.sources.ask(wanted.desired.models, pods),
        )
        desired = replace(wanted.desired, pools=pools.specs)
        statuses = await self.reconciler.reconcile(desired, wanted.statuses(self._said))
        self._said = {wanted.objects[model]["metadata"]["uid"]: status for model, status in statuses.items()}
        await self.status_writer.write(wanted, statuses)
        await self.pool_statuses.write(pools, desired.models)
        return statuses

    @property
    def has_pools(self) -> bool:
        """Whether there are EnginePools, as far as is known."""
        return bool(self._pools.pools)

    async def let_others_go_first(self) -> None:
        """Wait for wishes and first answers that are under way, for a moment: they need no round."""
        await Moment().wait_while(lambda: self.engines.is_waking or self.reconciler.awaits_answer)

    def see_pod(self, pod: Object) -> None:
        """Begin to ask an engine that has started, and the agent beside it: who is held waits for no round."""
        engine = self.engines.started(pod)
        if engine is not None:
            self.reconciler.engine_started(engine)
            self.sources.ask_soon(pod, self.reconciler.look_for_answers)

    async def _observe_pools(self) -> WantedPools:
        try:
            found = await self._list(ENGINE_POOL)
        except ApiError as error:
            if error.status != _NOT_DEFINED:
                raise
            found = []
        self._pools = read_pools(found, self._pools.pools)
        await self.pooled.observe(self._pools)
        return self._pools

    async def _list(self, kind: Kind) -> list[Object]:
        items: list[Object] = []
        for namespace in self.namespaces:
            items += await self.api.list_watched(kind, namespace)
        return items

    def _log_unknown(self, wanted: Wanted) -> None:
        """Log each set of unknown fields once."""
        for model, fields in wanted.unknown.items():
            if self._unknown.get(model) != fields:
                log.warning("Unknown fields are ignored.", extra={"model": model, "fields": ", ".join(fields)})
        self._unknown = wanted.unknown


class LeaderLoop:
    """Runs rounds until it is cancelled."""

    def __init__(
        self,
        one_round: LeaderRound,
        metrics: OperatorMetrics,
        round_s: float,
        wake: asyncio.Event,
        holds: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run a round when `wake` is set, and every `round_s`; `holds`: whether a request waits for an engine."""
        self._holds = holds
        self._took_s = 0.0
        """How long the last round took."""
        self._round = one_round
        self._metrics = metrics
        self._round_s = round_s
        self._wake = wake
        self._edited = asyncio.Event()
        self._known_again = asyncio.Event()
        self._settled = True
        self._models = 0
        self._backoff = Backoff()
        self._long_lived = LongLived()

    def changed(self) -> None:
        """Say that something has happened."""
        self._metrics.waiting.inc()
        self._wake.set()

    def known_again(self) -> None:
        """Say that something can be read again for whose lack rounds have failed."""
        self._known_again.set()

    def see_model(self, item: Object) -> None:
        """Begin the next round sooner where somebody has edited a model of which something was said before."""
        said_of = item.get("status", {}).get("observedGeneration", 0)
        if said_of not in (0, item["metadata"]["generation"]):
            self._edited.set()

    async def run(self) -> None:
        """Run rounds until it is cancelled; then another operator counts the models. Raises RoundHangs."""
        try:
            await self._rounds()
        finally:
            self._metrics.count({})
            self._metrics.scaling.show(())
            self._metrics.pools.show({})

    async def _rounds(self) -> None:
        failures = 0
        while True:
            await self._round.let_others_go_first()
            self._wake.clear()
            self._edited.clear()
            self._known_again.clear()
            self._metrics.waiting.set(0)
            try:
                await self._timed_round()
            except (ApiError, RegistryUnavailable, RegistryError) as error:
                failures += 1
                pause_s = self._backoff.pause_s(failures)
                log.warning("A round failed; it is tried again.", extra={"error": str(error), "pause_s": pause_s})
                await wait_at_most(self._known_again, pause_s)
                continue
            failures = 0
            self._long_lived.round_ended(settled=self._settled and self._models > 0)
            await self._pause()
            await wait_at_most(self._wake, self._rest_s())

    async def _pause(self) -> None:
        """Wait for as long as there is to be between two rounds: those over many models take a seventh of the time."""
        began_s = time.monotonic()
        while (left_s := self._pause_s() - (time.monotonic() - began_s)) > 0:
            if self._edited.is_set():
                await asyncio.sleep(left_s)
            else:
                await wait_at_most(self._edited, min(left_s, LOOK_S))

    def _pause_s(self) -> float:
        """Return how long the pause is to be, as it looks now."""
        holds = self._holds()
        least_s = AWAITED_PAUSE_S if holds else LEAST_PAUSE_S
        many = self._models > MANY and not (holds and self._round.has_pools)
        part = PAUSE_PART_OF_MANY if many else PAUSE_PART
        pause_s = max(least_s, min(self._took_s * part, LONGEST_PAUSE_S))
        if self._edited.is_set():
            pause_s = min(pause_s, max(EDITED_PAUSE_S, self._took_s * EDITED_PART))
        return pause_s

    def _rest_s(self) -> float:
        return self._round_s if self._settled else min(self._round_s, UNSETTLED_S)

    async def _timed_round(self) -> None:
        began = time.perf_counter()
        result = "error"
        try:
            async with asyncio.timeout(LONGEST_ROUND_S):
                statuses = await self._round.run()
            self._models = len(statuses)
            self._settled = all(status.settled for status in statuses.values())
            self._metrics.count(statuses)
            result = "ok"
        except TimeoutError:
            raise RoundHangs(f"A round has not ended within {LONGEST_ROUND_S:g} s.") from None
        finally:
            self._metrics.reconciles.labels(result).inc()
            self._took_s = time.perf_counter() - began
            self._metrics.duration.observe(self._took_s)


def _loads(snapshot: Snapshot) -> dict[str, int]:
    """Return the requests in flight in each pool of workers."""
    return {pool: sum(beat.in_flight for beat in beats) for pool, beats in snapshot.workers.items()}
