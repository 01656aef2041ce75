"""Decides for all models that scale, as time passes and with every record of a gateway; rounds take what was decided.

Between two rounds only the numbers are looked at, so a wish for a model that rests is answered at once: `wake` starts
its engine on the cluster while the next round is still to come.

Where somebody else decides and requests wait for that (`routing.hold`), what is known of a model is the same, and the
number of its engines is what its spec says.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from itertools import count

from conch_contracts.conditions import ConditionType, Reason
from conch_contracts.names import ModelId
from conch_contracts.records import ModelKind
from conch_contracts.spec.scaling import ScalingSpec
from conch_kit.background_loops import BackgroundLoops
from conch_kit.turns import in_turns
from conch_operator.metrics import EnginesOfModel, ScalingMetrics
from conch_operator.reconcile.status import ModelStatus, Statuses
from conch_operator.routes.engine_contract import contract_of
from conch_operator.routes.name_claims import names_of
from conch_operator.scaling.decision import Bounds, Cause, EngineScaler, EnginesSeen
from conch_operator.scaling.demand import DemandBook
from conch_operator.scaling.freed_room import FreedRoom
from conch_operator.scaling.lent_room import LentRoom
from conch_operator.scaling.node_wait import NodeWait
from conch_operator.scaling.scaled_model import ScaledModel, Wish
from conch_operator.scaling.schedule import scheduled_minimum
from conch_operator.scaling.start_failures import failure_of_all, outlasts_a_pause, source_failure, start_faults
from conch_operator.scaling.starts import StartTimes
from conch_operator.state import (
    Desired,
    DesiredModel,
    EngineName,
    EnginePhase,
    Fault,
    Observed,
    ObservedEngine,
    Scaled,
    SourceFacts,
)
from conch_operator.timestamps import timestamp

_TICK_S = 1.0
_OF_NO_ENGINE = frozenset({"scaling", "replicas", "routing", "progress_deadline", "served_names", "default"})
"""Fields of a spec that change nothing about its engines: an edit of these starts none."""

Wake = Callable[[ModelId, Scaled, Callable[[], None]], None]
"""Starts so many engines of a resting model before the next round; calls the last argument when that is done."""


class Autoscaler(BackgroundLoops):
    """The scalers of all models, as an async context manager that ticks."""

    def __init__(
        self,
        book: DemandBook,
        changed: Callable[[], None],
        metrics: ScalingMetrics,
        wake: Wake = lambda model, scaled, done: None,
        *,
        unix_time: Callable[[], float] = time.time,
        node_wait_s: float = 0.0,
    ) -> None:
        """Make it; `changed` says that a round is due, `wake` starts a resting model's engines before it comes.

        An engine that no node has room for waits for that which others leave or lend. It has failed to start when that
        was not enough, and `node_wait_s` later, in which the cluster may add a node.
        """
        super().__init__(self._tick)
        self._book = book
        self._changed = changed
        self._metrics = metrics
        self._wake = wake
        self._unix_time = unix_time
        self._node_wait_s = node_wait_s
        self._models: dict[ModelId, ScaledModel] = {}
        self._gateways: frozenset[str] = frozenset()
        self._freed = FreedRoom()
        self._lent = LentRoom()
        self._orders = count(1)

    async def apply(self, desired: Desired, observed: Observed, before: Statuses) -> Desired:
        """Return the models with the number of engines that each is to have now.

        Others have turns meanwhile, so a wish may be decided about in the middle of it.
        """
        self._gateways = observed.gateways
        now = self._book.clock()
        self._freed.look(observed.engines, self._rests, now)
        self._lent.choose(self._models, self._freed, self._book.is_asked, now)
        scaled = [model for model in desired.models if _is_kept(model)]
        looked = {model.id: self._looked_at(model, observed, before.get(model.id)) async for model in in_turns(scaled)}
        self._models = looked
        models: list[DesiredModel] = []
        shown: list[EnginesOfModel] = []
        async for model in in_turns(desired.models):
            known = self._models.get(model.id)
            if known is not None:
                self._decide(known)
                shown.append(self._engines_of(known, desired, observed))
            models.append(model if known is None else self._scaled(known))
        self._metrics.show(shown)
        return replace(desired, models=tuple(models))

    def heard(self, models: Collection[ModelId]) -> None:
        """Look at once at those of these models that rest, since somebody may wait for one.

        And at all that are about to: who has nothing to do for them any more does not name them.
        """
        for model, known in self._models.items():
            if known.quiet and model in models and self._book.is_asked(model):
                known.quiet = False
            if known.scaler.draining or (known.scaler.desired == 0 and model in models):
                self._decide_between(known)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            complete = self._book.is_complete(self._gateways)
            async for model, known in in_turns([*self._models.items()]):
                if self._models.get(model) is known and known.is_due(self._book.clock(), complete=complete):
                    self._decide_between(known)

    def _decide_between(self, known: ScaledModel) -> None:
        """Decide between two rounds; what follows from it is the next round's, but for a start from rest."""
        before, draining = known.scaler.desired, known.scaler.draining
        self._decide(known)
        if before == 0 < known.scaler.desired:
            scaled = self._scaled(known).scaled
            assert scaled is not None
            self._wake(known.deployed.id, scaled, partial(self._called, known))
        if (known.scaler.desired, known.scaler.draining) != (before, draining):
            self._changed()

    def _decide(self, known: ScaledModel) -> None:
        now = self._book.clock()
        drained = known.drained_since_s is not None and self._book.said_since(known.drained_since_s)
        before = known.scaler.desired
        load = self._book.of(known.deployed.id, self._gateways)
        known.complete = load.complete
        known.looked_at_s = now
        if known.scaling is None or known.bounds is None:
            known.scaler.follow(known.deployed.deployment.spec.replicas, now)
        else:
            bounds = self._bounds(known, known.scaling, known.bounds)
            known.least = bounds.least
            known.scaler.decide(load, bounds, replace(known.seen, drained=drained), now)
        known.quiet = load.complete and load.sequences == 0 and not known.scaler.draining
        if known.scaler.desired != before:
            known.scaled_at = timestamp()
            self._metrics.turned(before, known.scaler.desired, known.scaler.cause)
        if before == 0 < known.scaler.desired:
            known.patience_from_s = now
            if known.scaler.cause in (Cause.LOAD, Cause.WOKEN):
                known.wish = Wish(now - load.oldest_wait_s)
        elif known.scaler.desired == 0:
            known.wish = None

    def _called(self, known: ScaledModel) -> None:
        """Note that the cluster was told to start an engine that was wished for."""
        if known.wish is not None and not known.wish.called:
            known.wish.called = True
            self._metrics.wish_to_call.observe(self._book.clock() - known.wish.at_s)

    def _watch_wish(self, known: ScaledModel, engines: tuple[ObservedEngine, ...], now_s: float) -> None:
        """Measure how long an engine that was wished for has taken, as far as it has come."""
        if any(engine.stays for engine in engines):
            self._called(known)
        if known.wish is not None and any(engine.ready and engine.stays for engine in engines):
            self._metrics.wish_to_ready.observe(now_s - known.wish.at_s)
            known.wish = None

    def _bounds(self, known: ScaledModel, scaling: ScalingSpec, bounds: Bounds) -> Bounds:
        unix_s = self._unix_time()
        least, why = bounds.least, bounds.why_least
        if (asked := scheduled_minimum(scaling.schedules, unix_s, known.starts.usual_s)) > least:
            least, why = asked, Cause.SCHEDULE
        if least == 0 and self._book.awake_until.get(known.deployed.id, 0.0) > unix_s:
            least, why = 1, Cause.WOKEN
        if least == 0 and not (known.proven and known.storable):
            least, why = 1, Cause.FIRST_START
        if least == bounds.least and not known.lends:
            return bounds
        return replace(bounds, least=least, why_least=why, lends=known.lends)

    def _rests(self, model: ModelId) -> bool:
        known = self._models.get(model)
        return known is not None and known.scaler.desired == 0

    def _looked_at(self, model: DesiredModel, observed: Observed, before: ModelStatus | None) -> ScaledModel:
        """Return what is known of a model after a look at its engines."""
        engines, now = observed.engines_of(model.id), self._book.clock()
        known = self._models.get(model.id)
        if known is None or known.deployed.uid != model.uid:
            known = self._found(model, engines, before)
        spec = known.spec if known.deployed is model else _spec_of(model)
        updated = _updated(known, engines, observed) if known.spec == spec else None
        if updated is None:  # which engines are of this spec the next round can tell
            # Nobody here starts an engine to see what an edit is worth where somebody else decides.
            known.edited = known.edited or known.proven
            known.spec, known.proven = spec, known.proven and model.deployment.spec.waits_for_others
            known.patience_from_s, known.failure = now, None
        elif any(engine.ready for engine in updated):
            known.proven, known.edited = True, False
        if known.deployed is not model:
            known.deployed, known.bounds = model, _bounds_of(model)
        if any(engine.ready for engine in engines):
            known.patience_from_s = now
        self._watch_wish(known, engines, now)
        known.storable = _is_storable(model, observed) if observed.registry_answered else known.storable
        known.unreadable = source_failure(model, observed)
        is_back = known.was_away and isinstance(observed.sources.get(model.id), SourceFacts)
        known.was_away = known.cannot_start or (known.was_away and not is_back)
        if is_back:
            known.patience_from_s = now
        known.answered = {
            engine.name: engine.engine.incarnation if engine.ready else known.answered.get(engine.name, -1)
            for engine in engines
        }
        faults = [] if updated is None else start_faults(model, updated, observed, known.answered)
        failure = failure_of_all(faults)
        waits_for_room = self._waits_for_room(known, failure, now)
        if waits_for_room:
            failure, known.patience_from_s = None, now
        self._time_starts(known, engines, now, waits_for_node=waits_for_room and not known.room_comes)
        ready = sum(engine.ready for engine in engines)
        lasts = ready == 0 and known.scaler.desired > 0 and not is_back and outlasts_a_pause(known.failure)
        known.failure = failure or (known.failure if lasts else None)
        known.seen = EnginesSeen(ready, failing=any(faults) or known.cannot_start)
        staying = [engine for engine in engines if engine.stays]
        serving = [engine for engine in staying if engine.ready]
        leaves = bool(serving) or not staying  # one that starts is waited for
        if not (known.scaler.draining and leaves and all(engine.withdrawn for engine in serving)):
            known.drained_since_s = None
        elif known.drained_since_s is None:
            known.drained_since_s = now
        return known

    def _found(
        self, model: DesiredModel, engines: tuple[ObservedEngine, ...], before: ModelStatus | None
    ) -> ScaledModel:
        """Begin with what is there: the work of an operator before this one."""
        said = before.scaling if before is not None and before.observed_generation == model.generation else None
        proven = _has_answered(model, before) and (said is not None or model.deployment.spec.waits_for_others)
        present = sum(engine.stays for engine in engines)
        starts = StartTimes([float(said.start_seconds)] if said is not None and said.start_seconds else ())
        now = self._book.clock()
        scaler = EngineScaler(max(present, said.desired if said is not None else 0), now, starts)
        scaled_at = said.last_scale_time if said is not None else None
        found = ScaledModel(_spec_of(model), model, _bounds_of(model), scaler, starts, proven, scaled_at, now)
        if proven:  # one that has ended since may have answered before
            found.answered = {engine.name: engine.engine.incarnation for engine in engines}
        return found

    def _waits_for_room(self, known: ScaledModel, failure: Fault | None, now_s: float) -> bool:
        """Return whether an engine waits for a node or for room on one, and has not done so for too long."""
        if failure is None or failure.reason is not Reason.UNSCHEDULABLE:
            known.node_wait = None
            return False
        if known.node_wait is None:
            known.node_wait = NodeWait(now_s, self._freed.left)
            self._changed()
        wait = known.node_wait
        wait.room_of &= self._freed.left
        return wait.room_comes or now_s - wait.since_s < self._node_wait_s

    def _time_starts(
        self, known: ScaledModel, engines: tuple[ObservedEngine, ...], now_s: float, *, waits_for_node: bool
    ) -> None:
        """Measure from when an engine is first seen until it answers; those that answered before are not measured.

        Nor is the time in which one could not start: how long somebody takes to mend that says nothing of a start.
        """
        before = known.began_s
        began: dict[EngineName, float | None] = {}
        for engine in engines:
            since = None if before is None else before.get(engine.name, now_s)
            stopped = engine.engine.phase in (EnginePhase.EXITED, EnginePhase.BLOCKED)
            if since is not None and stopped and not waits_for_node:
                since = now_s
            if engine.ready and since is not None:
                known.starts.note(now_s - since)
                since = None
            began[engine.name] = since
        known.began_s = began

    def _engines_of(self, known: ScaledModel, desired: Desired, observed: Observed) -> EnginesOfModel:
        route = observed.routes.get(known.deployed.id)
        names = (() if route is None else route.served_names) or names_of(known.deployed, desired)
        return EnginesOfModel(names[0], known.scaler.desired, known.seen.ready, known.complete)

    def _scaled(self, known: ScaledModel) -> DesiredModel:
        """Return a model with what was decided about it."""
        said, told = self._said(known), known.told
        if told is None or told.scaled != said or known.told_of is not known.deployed:
            said = replace(said, order=next(self._orders))
            told = known.told = replace(known.deployed, scaled=said)
            known.told_of = known.deployed
        return told

    def _said(self, known: ScaledModel) -> Scaled:
        scaler = known.scaler
        patience_s = known.deployed.deployment.spec.progress_deadline
        on_time = known.seen.ready > 0 or self._book.clock() - known.patience_from_s < patience_s
        failure = known.failure or (known.unreadable if known.cannot_start or not known.proven else None)
        hopes = known.failure is None and not known.cannot_start and (scaler.desired == 0 or on_time)
        return Scaled(
            engines=scaler.desired,
            draining=scaler.draining,
            cause=str(scaler.cause),
            changed_at=known.scaled_at,
            start_s=known.starts.measured_s,
            wakes=known.proven and hopes,
            tries_edit=known.edited and known.unreadable is None and hopes,
            failure=None if failure is None else failure.message,
            taken=self._book.taken(known.deployed.id),
        )


def _is_kept(model: DesiredModel) -> bool:
    """Return whether requests may wait for an engine of its own to start."""
    return model.deployment.spec.scaling is not None or model.deployment.spec.waits_for_others


def _has_answered(model: DesiredModel, before: ModelStatus | None) -> bool:
    """Return whether its status says that an engine of its spec has answered, whatever else keeps it from serving."""
    engine = before.condition(ConditionType.ENGINE_READY) if before is not None else None
    if before is None or engine is None or not engine.holds:
        return False
    return engine.reason is Reason.SCALED_TO_ZERO or before.rolled_out or model.deployment.spec.waits_for_others


def _bounds_of(model: DesiredModel) -> Bounds | None:
    """Return the bounds that a spec sets; None where somebody else decides."""
    scaling, spec = model.deployment.spec.scaling, model.deployment.spec
    if scaling is None:
        return None
    return Bounds(
        least=scaling.min_replicas,
        most=scaling.max_replicas,
        slots=contract_of(model).slots,
        target=float(scaling.target_of(of_language=spec.kind is ModelKind.LLM)),
        idle_after_s=scaling.idle_after,
    )


def _spec_of(model: DesiredModel) -> str:
    return model.deployment.spec.model_dump_json(exclude=set(_OF_NO_ENGINE))


def _is_storable(model: DesiredModel, observed: Observed) -> bool:
    """Return whether a request finds its route and its tokenizer though no engine runs."""
    facts = observed.sources.get(model.id)
    if isinstance(facts, SourceFacts) and facts.digest in observed.unstored:
        return False
    return model.id in observed.routes or model.id in observed.routed


def _updated(known: ScaledModel, engines: tuple[ObservedEngine, ...], observed: Observed) -> tuple[ObservedEngine, ...]:
    """Return the engines that show what the spec is worth as it is now."""
    if known.deployed.id in observed.specs:
        return observed.updated_engines_of(known.deployed.id)
    return () if known.edited else engines
