"""Pools of workers: each runs in the release's namespace while a model of its kinds exists, and a while longer.

They are seen to beside the rounds, so a pool that is slow or fails holds up no model.

How many workers a pool has follows the requests that they announce, between the chart's bounds (`worker_pool_scaling`).
What a pool looks like is the chart's to say; the operator adds the number of replicas and the owner, so that workers go
with the release.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from conch_contracts.conditions import Reason
from conch_contracts.names import OPERATOR
from conch_contracts.records import ModelKind
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import DEPLOYMENT, DISRUPTION_BUDGET, Kind, Object
from conch_operator.kubernetes.api.object_events import event_body, reference_to, tell
from conch_operator.kubernetes.api.owned_objects import Key, OwnedObjects, Refused, key_of, selector_of
from conch_operator.kubernetes.worker_pool_scaling import WorkerBounds, WorkerScaler
from conch_operator.reconcile.calls_in_flight import AWAITED, Background, CallsInFlight
from conch_operator.resources.worker_pool import WORKER_POOL_LABEL, WorkerPoolPlace, make_worker_pool
from conch_operator.settings import ReleaseFile, WorkerPoolSettings
from conch_operator.timestamps import micro_timestamp

log = logging.getLogger(__name__)

WORKER_POOL_KINDS: tuple[Kind, ...] = (DEPLOYMENT, DISRUPTION_BUDGET)
WORKER_POOL_SELECTOR = selector_of(WORKER_POOL_LABEL)
TOLD_AGAIN_S = 1800.0
"""How long the word about an object that is refused stands: half of what an API server keeps Events for by default."""
_NEXT_STEP = "Correct workers.{pool} in the values of the release, or ask whoever runs the cluster; it is tried again."

_WITHOUT_PODS = "Workers end by themselves when no model needs them any more."


class WorkerPools:
    """Runs the pools that are needed."""

    def __init__(
        self,
        api: KubernetesApi,
        release: ReleaseFile,
        clock: Callable[[], float] = time.monotonic,
        background: Background = AWAITED,
        instance: str = OPERATOR,
    ) -> None:
        self._api = api
        self._release = release
        self._clock = clock
        self._instance = instance
        namespaces = [release.release.namespace]
        self._owned = OwnedObjects(
            api, namespaces, WORKER_POOL_KINDS, WORKER_POOL_SELECTOR, instance=instance, without_pods=_WITHOUT_PODS
        )
        self._refused: dict[Key, tuple[str, float]] = {}
        """What was said of each object that is refused, and when."""
        self._needed_at: dict[str, float] = {}
        self._scalers: dict[str, WorkerScaler] = {}
        self._owner: Object | None = None
        self._operator: Object | None = None
        """The same object, as Events name it."""
        self._ensuring: CallsInFlight[str, None] = CallsInFlight(replace(background, changed=lambda: None))
        """Their end begins no round, which would begin them again: no round needs what they say."""
        self._failure = ""

    async def ensure(self, kinds: Iterable[ModelKind], loads: Mapping[str, int]) -> None:
        """Make every pool be there that models of these kinds need, and end those that none has needed for a while.

        `loads`: the requests in flight in each pool. What fails is logged, and tried again the next time.
        """
        if self._release.worker_pools:
            await self._ensuring.run({"all pools": partial(self._ensure_or_log, frozenset(kinds), dict(loads))})

    async def _ensure_or_log(self, kinds: frozenset[ModelKind], loads: Mapping[str, int]) -> None:
        failure = ""
        try:
            await self._ensure(kinds, loads)
        except ApiError as error:  # models that miss their workers say so themselves
            failure = str(error)
        if failure and failure != self._failure:
            log.warning("The pools of workers were not seen to; it is tried again.", extra={"error": failure})
        self._failure = failure

    async def _ensure(self, kinds: frozenset[ModelKind], loads: Mapping[str, int]) -> None:
        await self._owned.observe()
        owner = await self._find_owner()
        wanted = set()
        names = self._wanted(kinds)
        self._scalers = {name: scaler for name, scaler in self._scalers.items() if name in names}
        for name in names:
            pool = self._release.worker_pools[name]
            replicas = await self._replicas(name, pool, loads.get(name, 0))
            for made in make_worker_pool(name, pool, WorkerPoolPlace(self._release.release.namespace, owner, replicas)):
                wanted.add(key_of(made))
                try:
                    await self._owned.ensure(made)
                except Refused as error:
                    await self._tell_refusal(name, made, str(error))
                else:
                    self._refused.pop(key_of(made), None)
        await self._owned.prune_all(wanted)

    async def _tell_refusal(self, pool: str, made: Object, error: str) -> None:
        """Tell of an object that is refused: on the object, or on what it belongs to while there is none.

        It is told again while it lasts, since Events are forgotten, and until an Event was written.
        """
        key, now = key_of(made), self._clock()
        said, at = self._refused.get(key, ("", now))
        if said == error and now - at < TOLD_AGAIN_S:
            return
        log.warning("An object of a pool was refused.", extra={"pool": pool, "error": error})
        about = self._owned.reference_to(made) or self._operator
        if about is not None:
            mark = f"refused {error} {micro_timestamp()}"
            note = f"The API server refused {error.rstrip('.')}. {_NEXT_STEP.format(pool=pool)}"
            event = event_body(about, mark, self._instance, normal=False, reason=Reason.REJECTED, note=note)
            if not await tell(self._api, event):
                return
        self._refused[key] = error, now

    async def _replicas(self, name: str, pool: WorkerPoolSettings, requests: int) -> int:
        bounds = WorkerBounds(pool.min_replicas, pool.max_replicas, pool.requests_per_worker)
        scaler = self._scalers.get(name)
        if scaler is None:
            scaler = self._scalers[name] = WorkerScaler(await self._present(pool), self._clock())
        before = scaler.replicas
        wanted = scaler.decide(requests, bounds, self._clock())
        if wanted != before:
            log.info("A pool of workers is scaled.", extra={"pool": name, "replicas": wanted, "requests": requests})
        return wanted

    async def _present(self, pool: WorkerPoolSettings) -> int:
        """Return how many workers an operator before this one wanted."""
        for made in pool.objects.values():
            if made["kind"] == DEPLOYMENT.name:
                found = await self._api.get(DEPLOYMENT, self._release.release.namespace, made["metadata"]["name"])
                return int(found["spec"].get("replicas", pool.min_replicas)) if found else pool.min_replicas
        return pool.min_replicas

    def _wanted(self, kinds: frozenset[ModelKind]) -> list[str]:
        now = self._clock()
        pools: Mapping[str, WorkerPoolSettings] = self._release.worker_pools
        for name, pool in pools.items():
            if pool.kinds & kinds:
                self._needed_at[name] = now
            elif name not in self._needed_at and self._owned.has_any(WORKER_POOL_LABEL, name):
                self._needed_at[name] = now  # it was there before us, so its time begins now
        return [
            name
            for name, pool in pools.items()
            if name in self._needed_at and now - self._needed_at[name] <= pool.idle_seconds
        ]

    async def _find_owner(self) -> Object | None:
        """Return the reference to the object that goes with the release."""
        owner = self._release.owner
        if owner is None or self._owner is not None:
            return self._owner
        found = await self._api.get(DEPLOYMENT, self._release.release.namespace, owner.name)
        if found is None:
            raise ApiError(404, f"The Deployment {owner.name} that owns the workers does not exist.")
        self._operator = reference_to(DEPLOYMENT, found)
        self._owner = {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": found["metadata"]["uid"],
            "blockOwnerDeletion": False,
        }
        return self._owner
