"""Writes the status of each EnginePool; nothing that the object says already."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from pydantic import ValidationError

from conch_contracts.conditions import Condition, ConditionStatus, ConditionType, Reason, set_condition
from conch_contracts.names import PoolId
from conch_contracts.spec.engine_pool import EnginePoolStatus, Resident
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import ENGINE_POOL, Object
from conch_operator.kubernetes.pools.pool_pods import PoolPods
from conch_operator.kubernetes.pools.pooled_engines import PooledEngines
from conch_operator.kubernetes.pools.wanted_pools import WantedPools
from conch_operator.reconcile.calls_in_flight import AGAIN_S, AWAITED, Background, CallsInFlight
from conch_operator.state import ClusterEngine, DesiredModel, EnginePhase, Fault
from conch_operator.timestamps import timestamp

log = logging.getLogger(__name__)

MOST_RESIDENTS = 1000
"""So many the status of a pool names at most, as its schema says."""


class PoolStatusWriter:
    """Writes statuses, that of one pool without waiting for another's."""

    def __init__(
        self, api: KubernetesApi, engines: PooledEngines, pods: PoolPods, background: Background = AWAITED
    ) -> None:
        self._api = api
        self._engines = engines
        self._pods = pods
        self._background = background
        self._writing: CallsInFlight[PoolId, None] = CallsInFlight(background)

    async def write(self, wanted: WantedPools, models: Sequence[DesiredModel]) -> None:
        """Write the statuses that have changed; an object that has gone meanwhile is no error."""
        changed = {}
        loaded = self._loaded()
        for pool_id, item in wanted.objects.items():
            placed = sum(model.deployment.pool_id == pool_id for model in models)
            body = pool_status(
                item,
                self._fault(pool_id, wanted),
                self._engines.unapplied(pool_id),
                loaded.get(pool_id, []),
                placed,
                timestamp(),
            )
            if body != item.get("status"):
                changed[pool_id] = partial(self._write, item, body)
        await self._writing.run(changed)

    def _fault(self, pool: PoolId, wanted: WantedPools) -> Fault | None:
        pod = self._pods.current(pool)
        if pod is not None and pod.answers:
            return None
        if pool not in wanted.pools:
            return self._engines.unapplied(pool)
        return self._engines.fault_of(pool) or Fault(Reason.ENGINE_STARTING, "The pool's server is being started.")

    def _loaded(self) -> Mapping[PoolId, list[ClusterEngine]]:
        found: dict[PoolId, list[ClusterEngine]] = {}
        for engine in self._engines.engines():
            if engine.pool is not None and engine.phase in (EnginePhase.RUNNING, EnginePhase.STOPPING):
                found.setdefault(engine.pool, []).append(engine)
        return found

    async def _write(self, item: Object, body: Object) -> None:
        meta = item["metadata"]
        try:
            await self._api.patch(ENGINE_POOL, meta["namespace"], meta["name"], {"status": body}, "status")
        except ApiError as error:
            if not error.answered:
                self._background.changed_in(AGAIN_S)
            if error.status != 404:
                log.warning("A status was not written.", extra={"pool": meta["name"], "error": str(error)})


def pool_status(
    item: Object,
    fault: Fault | None,
    unapplied: Fault | None,
    loaded: Sequence[ClusterEngine],
    placed: int,
    now: str,
) -> Object:
    """Return the status as the object is to hold it.

    `fault`: why no server answers; `unapplied`: why the one that does is not what the object asks for.
    """
    generation: int = item["metadata"]["generation"]
    conditions = _conditions(item)
    for kind, why in ((ConditionType.READY, fault), (ConditionType.APPLIED, unapplied)):
        new = Condition(
            type=kind,
            status=ConditionStatus.TRUE if why is None else ConditionStatus.FALSE,
            reason=Reason.READY if why is None else why.reason,
            message="" if why is None else why.message,
            last_transition_time=now,
            observed_generation=generation,
        )
        conditions = set_condition(conditions, new)
    sizes = {engine.model.partition("/")[2]: engine.memory_bytes for engine in loaded}
    taken = sum(size or 0 for size in sizes.values())
    status = EnginePoolStatus(
        observed_generation=generation,
        models=placed,
        loaded=len(sizes),
        memory_bytes=taken,
        memory_used=f"{round(taken / 1024**2)}Mi",
        residents=tuple(
            Resident(name=name, memory_bytes=size) for name, size in sorted(sizes.items())[:MOST_RESIDENTS]
        ),
        conditions=conditions,
    )
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def _conditions(item: Object) -> Sequence[Condition]:
    """Return what was said before; nothing where another version has said it in words that nobody here knows."""
    try:
        return EnginePoolStatus.model_validate(item.get("status") or {}).conditions
    except ValidationError:
        return ()
