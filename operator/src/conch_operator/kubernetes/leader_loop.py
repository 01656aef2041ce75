"""What the holder of the Lease does: rounds, at every change and now and then without one.

A round begins with complete lists of everything, so it depends on nothing that a watch may have missed; watches only
say that it is time. A round that fails is tried again, a little later each time.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from conch_contracts.names import ModelId
from conch_kit.redis.connection import RegistryError, RegistryUnavailable
from conch_operator.kubernetes.api.backoff import Backoff
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, Object
from conch_operator.kubernetes.desired_models import Wanted, read_wanted
from conch_operator.kubernetes.engines import KubernetesEngines
from conch_operator.kubernetes.status_writer import StatusWriter
from conch_operator.kubernetes.worker_pools import WorkerPools
from conch_operator.metrics import OperatorMetrics
from conch_operator.reconcile.round import Reconciler
from conch_operator.reconcile.status import Statuses

log = logging.getLogger(__name__)

LEAST_PAUSE_S = 0.25
"""Between two rounds, so that a burst of changes is seen to together."""
UNSETTLED_S = 1.0
"""Until the next round while a model is not ready."""


@dataclass(frozen=True, slots=True)
class LeaderParts:
    """What a round uses."""

    api: KubernetesApi
    engines: KubernetesEngines
    pools: WorkerPools
    reconciler: Reconciler
    telling: StatusWriter
    metrics: OperatorMetrics
    namespaces: Sequence[str | None]
    loads: Callable[[], Mapping[str, int]]
    """Returns the requests in flight in each pool of workers."""


class LeaderLoop:
    """Runs rounds until it is cancelled."""

    def __init__(self, parts: LeaderParts, round_s: float, wake: asyncio.Event) -> None:
        self._parts = parts
        self._round_s = round_s
        self._wake = wake
        self._settled = True
        self._unknown: Mapping[ModelId, tuple[str, ...]] = {}
        self._backoff = Backoff()

    def changed(self) -> None:
        """Say that something has happened."""
        self._parts.metrics.waiting.inc()
        self._wake.set()

    async def run(self) -> None:
        """Run rounds for ever."""
        failures = 0
        while True:
            self._wake.clear()
            self._parts.metrics.waiting.set(0)
            pause_s = LEAST_PAUSE_S
            try:
                await self._timed_round()
                failures = 0
            except (ApiError, RegistryUnavailable, RegistryError) as error:
                failures += 1
                pause_s = self._backoff.pause_s(failures)
                log.warning("A round failed; it is tried again.", extra={"error": str(error), "pause_s": pause_s})
            await asyncio.sleep(pause_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._rest_s())

    def _rest_s(self) -> float:
        return self._round_s if self._settled else min(self._round_s, UNSETTLED_S)

    async def _timed_round(self) -> None:
        began = time.perf_counter()
        result = "error"
        try:
            statuses = await self._round()
            self._settled = all(status.ready for status in statuses.values())
            self._parts.metrics.count(statuses)
            result = "ok"
        finally:
            self._parts.metrics.reconciles.labels(result).inc()
            self._parts.metrics.duration.observe(time.perf_counter() - began)

    def _say_unknown(self, wanted: Wanted) -> None:
        """Log each set of unknown fields once."""
        for model, fields in wanted.unknown.items():
            if self._unknown.get(model) != fields:
                log.warning("Unknown fields are ignored.", extra={"model": model, "fields": ", ".join(fields)})
        self._unknown = wanted.unknown

    async def _list(self) -> list[Object]:
        items: list[Object] = []
        for namespace in self._parts.namespaces:
            items += await self._parts.api.list_all(MODEL_DEPLOYMENT, namespace)
        return items

    async def _round(self) -> Statuses:
        parts = self._parts
        # Objects before models: an object whose owner went in between would be written again as that owner's, and a
        # model that is deleted with --cascade=orphan would take it along after all.
        await parts.engines.observe()
        wanted = read_wanted(await self._list())
        await parts.telling.greet(wanted)
        self._say_unknown(wanted)
        await parts.pools.ensure(wanted.kinds, parts.loads())
        statuses = await parts.reconciler.reconcile(wanted.desired, wanted.statuses)
        await parts.telling.tell(wanted, statuses)
        return statuses
