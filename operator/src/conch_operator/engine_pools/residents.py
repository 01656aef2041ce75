"""Knows the models of all EnginePools and has them take turns: who waits, who is in, and who goes for whom.

Rounds take from here whether a model is to have its engine, which is a place in the server of its pool. Who has to go
leaves its route first; when every gateway has said that nothing of it is left, it stops, and when it has gone its room
is free. A model whose spec has not been seen to work is loaded once, whoever asks for it or not, so that a fault shows;
one that fails is tried again after a pause.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from conch_contracts.conditions import ON_THE_WAY, ConditionType, Reason
from conch_contracts.names import ModelId, PoolId
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_contracts.spec.quantities import quantity_value
from conch_kit.background_loops import BackgroundLoops
from conch_operator.engine_pools.known_model import KnownModel
from conch_operator.engine_pools.residency import Place, Room, decide, fits_at_all
from conch_operator.metrics import PoolInUse, PoolMetrics
from conch_operator.reconcile.engine_steps import engine_recipe, spec_hash
from conch_operator.reconcile.placement_faults import pool_fault
from conch_operator.reconcile.status import ModelStatus, Statuses
from conch_operator.scaling.demand import DemandBook
from conch_operator.state import (
    Desired,
    DesiredModel,
    Fault,
    Observed,
    ObservedEngine,
    ProbeVerdict,
    Scaled,
    SourceFacts,
    SourceFault,
)

_TICK_S = 0.1
_MIB = 1024**2
_BESIDE_WEIGHTS_BYTES = 40 * _MIB
_PATIENCE_S = 10.0
"""How long one that is loaded may answer its small request wrongly, and how long it may take until one is begun."""


class Residents(BackgroundLoops):
    """The models of all pools, as an async context manager that ticks while they change places."""

    def __init__(
        self,
        book: DemandBook,
        changed: Callable[[], None],
        metrics: PoolMetrics,
        *,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        """Make it; `changed` says that a round is due."""
        super().__init__(self._tick)
        self._book = book
        self._changed = changed
        self._metrics = metrics
        self._unix_time = unix_time
        self._models: dict[ModelId, KnownModel] = {}
        self._gateways: frozenset[str] = frozenset()
        self._refused: Mapping[ModelId, Fault] = {}
        self._pinned: Mapping[PoolId, Sequence[KnownModel]] = {}
        self._changing = False
        """Whether a model is about to go, or one that fits waits for its turn: that is decided by the time, too."""
        self._orders = count(1)

    async def apply(self, desired: Desired, observed: Observed, before: Statuses) -> Desired:
        """Return the models, those of pools with what was decided about each."""
        self._gateways, self._refused = observed.gateways, observed.rejected
        placed = {model.id: model for model in desired.models if model.deployment.pool_id is not None}
        self._models = {
            model_id: known
            for model_id in [*self._models, *(placed.keys() - self._models.keys())]
            if (known := self._looked_at(model_id, placed.get(model_id), observed, before)) is not None
        }
        self._pinned = {pool: [one for one in self._members(pool) if one.pinned] for pool in desired.pools}
        waits = [self._take_turns(pool, spec) for pool, spec in desired.pools.items()]
        self._changing = any(waits) or any(one.place is Place.LEAVING for one in self._models.values())
        self._metrics.show({pool: _use_of(self._members(pool)) for pool in desired.pools})
        models = tuple(
            replace(model, scaled=self._said(self._models[model.id], desired)) if model.id in placed else model
            for model in desired.models
        )
        return replace(desired, models=models)

    def heard(self, models: Collection[ModelId]) -> None:
        """Begin a round where somebody waits for one of these models that is not in."""
        named = [self._models[model] for model in models if model in self._models]
        if any(not known.is_in and self._somebody_waits(known) for known in named):
            self._changed()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            if self._changing:
                self._changed()

    def _looked_at(
        self, model_id: ModelId, model: DesiredModel | None, observed: Observed, before: Statuses
    ) -> KnownModel | None:
        """Return what is known of a model after a look at its engines; None where it has left its pool for good."""
        now, engines = self._book.clock(), observed.engines_of(model_id)
        known = self._models.get(model_id)
        if known is not None and model is None:  # it may have engines of its own by now
            engines = tuple(engine for engine in engines if engine.engine.spec_hash == known.spec)
        if known is None:
            if model is None or model.deployment.pool_id is None:
                return None
            known = KnownModel(model.deployment.pool_id, model, told=_said_of(model, before))
            if any(engine.stays for engine in engines):
                known.goes_to(Place.LOADING, now)
        known.engines = engines
        if model is not None:
            known.deployed = model
            self._read(known, observed)
        self._move(known, wanted=model is not None, now_s=now)
        if known.place is Place.LEAVING:
            known.stopping = known.stopping or self._is_drained(known, observed)
            if not known.engines:
                known.goes_to(Place.OUT, now)
        if known.place is Place.OUT and not known.engines:
            if model is None:
                return None
            known.pool = model.deployment.pool_id or known.pool
        return known

    def _read(self, known: KnownModel, observed: Observed) -> None:
        """Take over what the model's folder and spec say now."""
        facts = observed.sources.get(known.deployed.id)
        if isinstance(facts, SourceFault) and _is_away(facts) and known.place is Place.OUT:
            # Until the folder is back nobody tries to load it in vain, and it waits for no room.
            known.spec, known.failure, known.waits_since_s = None, facts, None
        recipe = engine_recipe(known.deployed, facts) if isinstance(facts, SourceFacts) else None
        if recipe is None or not isinstance(facts, SourceFacts):
            return
        made_of = spec_hash(recipe)
        if made_of != known.spec:
            known.spec, known.failure, known.failures = made_of, None, 0
            if known.told is not None:
                known.proven = made_of
                size = None if known.told.scaling is None else known.told.scaling.memory_bytes
                known.measured = None if size is None else (made_of, size)
                known.told = None
        placement = known.deployed.deployment.spec.placement
        hint = None if placement is None else placement.size_hint
        guess = facts.weight_bytes * 13 // 10 + _BESIDE_WEIGHTS_BYTES
        known.estimate_bytes = guess if hint is None else int(quantity_value(hint))

    def _move(self, known: KnownModel, *, wanted: bool, now_s: float) -> None:
        """Follow what has become of a model's engine."""
        engine = next((one for one in known.engines if one.stays), None)
        if engine is not None and engine.engine.memory_bytes is not None:
            before, now = known.measured, (engine.engine.spec_hash, engine.engine.memory_bytes)
            known.measured = max(before, now) if before is not None and before[0] == now[0] else now
        ready = engine is not None and engine.ready
        if engine is not None and ready:
            known.proven = engine.engine.spec_hash
        if known.place is Place.LOADING and ready:
            if known.wished_at_s is not None:
                took_s = now_s - known.wished_at_s
                known.starts.note(took_s)
                self._metrics.loaded(known.pool, took_s if known.asked_for else None)
            known.wished_at_s = None
            known.failure, known.failures = None, 0
            known.goes_to(Place.READY, now_s)
        elif known.place is Place.READY and not ready:
            known.goes_to(Place.LOADING, now_s)
        if known.is_in and engine is not None:
            edited = known.spec is not None and engine.engine.spec_hash != known.spec
            if (failure := _failure(engine, now_s - known.came_at_s)) is not None and not edited:
                known.failure = failure
                known.fails(now_s)
                self._metrics.failed(known.pool)
                known.goes_to(Place.LEAVING, now_s)
            elif edited or not wanted:
                known.goes_to(Place.LEAVING, now_s)
        elif known.is_in and now_s - known.came_at_s >= _PATIENCE_S:  # nobody starts it, for want of a name perhaps
            known.fails(now_s)
            known.goes_to(Place.OUT, now_s)

    def _is_drained(self, known: KnownModel, observed: Observed) -> bool:
        """Return whether every gateway has applied that the engine left the route, and has nothing of it left."""
        model = known.deployed.id
        serving = {engine.engine.grpc for engine in known.engines if engine.ready and engine.stays}
        if not serving:
            return True
        if serving & {engine.grpc for engine in observed.held_engines.get(model, ())}:
            known.left_at = None
            return False
        if known.left_at is None or known.left_at > observed.revision:  # a Redis that was emptied counts anew
            known.left_at = observed.revision
        complete = self._book.of(model, self._gateways).complete and self._book.applied() >= known.left_at
        return complete and not any(self._book.taken(model).values())

    def _members(self, pool: PoolId) -> list[KnownModel]:
        return [known for known in self._models.values() if known.pool == pool]

    def _take_turns(self, pool: PoolId, spec: EnginePoolSpec) -> bool:
        """Let models of a pool come in and go; return whether one still waits for its turn."""
        members, room, now = self._members(pool), _room(spec), self._book.clock()
        for one in members:
            self._note_demand(one, now)
        fitting = [
            one.member(now)
            for one in members
            if one.place is not Place.OUT or fits_at_all(one.size_bytes, room, self._pinned_beside(one))
        ]
        changes = decide(fitting, room)
        for model in changes.enter:
            known = self._models[model]
            known.asked_for = self._somebody_waits(known)
            waited_since_s = known.waits_since_s if known.asked_for else None
            known.goes_to(Place.LOADING, now)
            known.wished_at_s, known.waits_since_s = now if waited_since_s is None else waited_since_s, None
        for model in changes.leave:
            self._models[model].goes_to(Place.LEAVING, now)
            self._metrics.unloaded(pool)
        return any(one.waits_s is not None and one.model not in changes.enter for one in fitting)

    def _pinned_beside(self, known: KnownModel) -> list[int]:
        """Return the sizes of the pinned models whose room it cannot have: those that are in, or come in before it."""
        return [
            other.size_bytes
            for other in self._pinned[known.pool]
            if other is not known
            and (other.place is not Place.OUT or (other.failure is None and other.deployed.id < known.deployed.id))
        ]

    def _note_demand(self, known: KnownModel, now_s: float) -> None:
        load = self._book.of(known.deployed.id, self._gateways)
        if known.is_in:
            known.waits_since_s, known.woken_until = None, self._awake_until(known)
            since_s = known.came_at_s if load.idle_s is None else now_s - load.idle_s
            if load.sequences or not load.complete or known.woken_until is not None:
                since_s = now_s
            known.used_at_s = max(known.used_at_s, since_s)
            known.asked_for = known.asked_for or bool(load.sequences) or (load.complete and since_s > known.came_at_s)
        elif self._somebody_waits(known):
            first_s = now_s - load.oldest_wait_s
            known.waits_since_s = first_s if known.waits_since_s is None else min(first_s, known.waits_since_s)
        elif known.place is Place.OUT and known.is_due(now_s):
            known.waits_since_s = now_s if known.waits_since_s is None else known.waits_since_s
        else:
            known.waits_since_s = None

    def _somebody_waits(self, known: KnownModel) -> bool:
        load = self._book.of(known.deployed.id, self._gateways)
        woken_until = self._awake_until(known)
        woken = woken_until is not None and woken_until != known.woken_until
        return (woken or load.sequences > 0) and known.failure is None

    def _awake_until(self, known: KnownModel) -> float | None:
        """Return until when, in Unix seconds, somebody wants it to be awake; None where nobody does now."""
        until = self._book.awake_until.get(known.deployed.id, 0.0)
        return until if until > self._unix_time() else None

    def _said(self, known: KnownModel, desired: Desired) -> Scaled:
        now = self._book.clock()
        leaving = known.place is Place.LEAVING
        patience_s = known.deployed.deployment.spec.progress_deadline
        on_time = known.place is not Place.LOADING or now - known.came_at_s < patience_s
        obstacle = self._refused.get(known.deployed.id) or self._obstacle(known, desired)
        broken = obstacle is not None and obstacle.reason not in ON_THE_WAY
        return Scaled(
            engines=int(known.is_in or (leaving and not known.stopping)),
            draining=leaving,
            cause=known.cause,
            changed_at=known.changed_at,
            start_s=known.starts.measured_s,
            wakes=known.has_answered and not broken and on_time,
            failure=obstacle.message if obstacle is not None and broken else None,
            taken=self._book.taken(known.deployed.id),
            memory_bytes=None if known.measured is None else known.measured[1],
            obstacle=obstacle,
            order=next(self._orders),
        )

    def _obstacle(self, known: KnownModel, desired: Desired) -> Fault | None:
        """Return why a model is not in that is to be."""
        if known.failure is not None:
            return known.failure
        spec, pool = desired.pools.get(known.pool), known.pool.partition("/")[2]
        if spec is None:
            return pool_fault(known.deployed.deployment, known.pool, None)
        if known.place is not Place.OUT:
            return None
        room = _room(spec)
        pinned = self._pinned_beside(known)
        if not fits_at_all(known.size_bytes, room, pinned):
            size, there = known.size_bytes // _MIB, room.memory_bytes // _MIB
            taken = sum(pinned) // _MIB
            most = "" if room.max_models is None else f" and at most {room.max_models} models"
            message = (
                f"It takes {size} MiB. The EnginePool {pool} has {there} MiB{most}, of which {len(pinned)} pinned ones "
                f"take {taken} MiB. Give it more room, pin fewer models, or correct spec.placement.sizeHint."
            )
            return Fault(Reason.TOO_LARGE, message)
        if known.waits_since_s is not None:
            return Fault(Reason.ENGINE_STARTING, f"It waits for room in the EnginePool {pool}.")
        return None


def _said_of(model: DesiredModel, before: Statuses) -> ModelStatus | None:
    """Return what was last said of a model that could be asked, if that is about its spec as it is now."""
    status = before.get(model.id)
    if status is None or not status.holds(ConditionType.ENGINE_READY):
        return None
    return status if 0 < model.generation == status.observed_generation else None


def _is_away(fault: SourceFault) -> bool:
    """Return whether a folder cannot be served now, by what may be wrong for longer than a moment."""
    return fault.is_of_now and fault.reason is not Reason.TEMPLATE_UNCHECKED


def _use_of(members: Iterable[KnownModel]) -> PoolInUse:
    sizes = [known.size_bytes for known in members if known.place is not Place.OUT]
    return PoolInUse(len(sizes), sum(sizes))


def _room(spec: EnginePoolSpec) -> Room:
    return Room(int(quantity_value(spec.memory)), spec.max_wait, spec.min_resident, spec.max_models)


def _failure(engine: ObservedEngine, since_s: float) -> Fault | None:
    """Return why an engine does not answer, where that is not only a matter of time."""
    again = "It is tried again after a while, and at once when its folder or its spec has changed."
    if engine.engine.fault is not None:
        fault = engine.engine.fault
    elif engine.probe.verdict is ProbeVerdict.FAILING and since_s >= _PATIENCE_S:
        fault = Fault(engine.probe.reason, engine.probe.message)
    else:
        return None
    if fault.reason in (*ON_THE_WAY, Reason.ENGINE_UNREACHABLE):
        return None
    return Fault(fault.reason, f"{engine.name}: {fault.message.rstrip('.')}. {again}")
