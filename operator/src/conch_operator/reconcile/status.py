"""Pure: from an observation to the status that users read, the same fields on a laptop and on a cluster."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from conch_contracts.conditions import (
    ON_THE_WAY,
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
    derive_ready,
    set_condition,
)
from conch_contracts.names import Digest, ModelId, ServedName
from conch_contracts.spec.status import ScalingStatus
from conch_operator.reconcile.plan import stand_ins
from conch_operator.reconcile.readiness import (
    PolicyInput,
    Published,
    is_applied,
    judge,
    no_engine_answers,
    rollout_fault,
)
from conch_operator.reconcile.rollout import Milestones, rollout_conditions, stalls_at
from conch_operator.reconcile.unchanged_models import UnchangedModels
from conch_operator.routes.name_claims import claims_of
from conch_operator.routes.route import unused_defaults
from conch_operator.state import (
    Desired,
    DesiredModel,
    EnginePhase,
    Fault,
    Observed,
    Probe,
    ProbeVerdict,
    SourceFacts,
    Unreadable,
)


class ModelStatus(BaseModel):
    """The status of one model."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    model_id: ModelId
    observed_generation: int = 0
    """The generation of the object that this status is about; 0 where nobody counts."""
    served_names: tuple[ServedName, ...]
    """The names that it keeps."""
    replicas: int
    ready_replicas: int
    updated_replicas: int = 0
    """Engines that are of the spec as it is now."""
    wanted_replicas: int = 0
    """Engines that there are to be."""
    scaling: ScalingStatus | None = None
    """What was decided about their number, where the load decides it."""
    last_progress_time: str | None = None
    """When what the spec asks for last got on, RFC 3339."""
    tokenizer_digest: Digest | None
    conditions: tuple[Condition, ...]

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return one condition, None before it was first judged."""
        return next((condition for condition in self.conditions if condition.type is kind), None)

    def holds(self, kind: ConditionType) -> bool:
        """Return whether one condition is true."""
        condition = self.condition(kind)
        return condition is not None and condition.holds

    @property
    def ready(self) -> bool:
        """Return whether the model serves."""
        return self.holds(ConditionType.READY)

    @property
    def rolled_out(self) -> bool:
        """Return whether everything is there for which the spec asks."""
        progressing = self.condition(ConditionType.PROGRESSING)
        return progressing is not None and progressing.reason is Reason.NEW_ENGINE_AVAILABLE

    @property
    def settled(self) -> bool:
        """Return whether the model serves, and everything is there for which its spec asks."""
        return self.ready and self.rolled_out


Statuses = Mapping[ModelId, ModelStatus]

_STAGES = (ConditionType.SOURCE_READY, ConditionType.TOKENIZER_READY, ConditionType.ENGINE_READY)


def describe(
    desired: Desired,
    observed: Observed,
    published: Published,
    before: Statuses,
    now: str,
    unchanged: UnchangedModels | None = None,
) -> Statuses:
    """Return the status of every wanted model but those that are new and not on the cluster yet.

    `now` is the time for conditions that change; `unchanged`: what rounds before this one have seen.
    """
    claims = claims_of(desired, observed)
    now_at = datetime.fromisoformat(now)
    statuses: dict[ModelId, ModelStatus] = {}
    unchanged = unchanged or UnchangedModels()
    for model in desired.models:
        given = PolicyInput(model, claims[model.id], observed, published)
        facts = observed.sources.get(model.id)
        old = before.get(model.id)
        if model.id in observed.unapplied:
            if old is not None:
                statuses[model.id] = old  # it may be of an older generation, and says so
            continue
        if old is not None and unchanged.holds(given, old, now_at):
            statuses[model.id] = old
            continue
        if (
            old is not None
            and old.ready
            and _is_unseen(model, observed)
            and old.observed_generation == model.generation
        ):
            statuses[model.id] = old
            continue
        counted = ModelStatus(
            model_id=model.id,
            served_names=given.claim.kept,
            replicas=_replicas(model, observed),
            observed_generation=model.generation,
            ready_replicas=_ready_replicas(model, observed),
            updated_replicas=_updated_replicas(model, observed),
            wanted_replicas=model.replicas,
            scaling=_scaling(model),
            tokenizer_digest=facts.digest if isinstance(facts, SourceFacts) else None,
            conditions=old.conditions if old else (),
        )
        status = statuses[model.id] = _judged(given, counted, old, now)
        unchanged.note(given, status, _stands_until(status, model))
    unchanged.keep_only(statuses.keys())
    for unread, why in desired.unreadable.items():
        statuses[unread] = _unread(unread, why, observed, before.get(unread), now)
    return statuses


def _unread(model: ModelId, why: Unreadable, observed: Observed, old: ModelStatus | None, now: str) -> ModelStatus:
    """Return the status of a model whose object cannot be read: whether it serves, and what to change."""
    engines, route = observed.engines_of(model), observed.routes.get(model)
    asked = [engine for engine in engines if engine.probe.verdict is not ProbeVerdict.PENDING]
    ready = sum(engine.ready for engine in asked) if asked or old is None else old.ready_replicas
    serves = route is not None and (ready > 0 if asked else old is not None and old.ready)
    fault = Fault(Reason.SPEC_INVALID, f"{why.message}. What serves it goes on as it is.")
    applied = _condition(ConditionType.APPLIED, fault, now, why.generation)
    status = ConditionStatus.TRUE if serves else ConditionStatus.FALSE
    conditions = set_condition(old.conditions if old else (), applied)
    stuck = {ConditionType.PROGRESSING: False, ConditionType.RECONCILING: False, ConditionType.STALLED: True}
    for kind, holds in stuck.items():
        said = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
        conditions = set_condition(conditions, applied.model_copy(update={"type": kind, "status": said}))
    return ModelStatus(
        model_id=model,
        observed_generation=why.generation,
        served_names=route.served_names if route is not None else (),
        replicas=len(engines) if asked or old is None else old.replicas,
        ready_replicas=ready,
        updated_replicas=old.updated_replicas if old else 0,
        wanted_replicas=old.wanted_replicas if old else 0,
        scaling=old.scaling if old else None,
        last_progress_time=old.last_progress_time if old else None,
        tokenizer_digest=route.tokenizer_digest if route is not None else None,
        conditions=set_condition(
            conditions, applied.model_copy(update={"type": ConditionType.READY, "status": status})
        ),
    )


def _replicas(model: DesiredModel, observed: Observed) -> int:
    if model.deployment.spec.engine.external is not None:
        return 1
    return sum(engine.stays for engine in observed.engines_of(model.id))


def _ready_replicas(model: DesiredModel, observed: Observed) -> int:
    foreign = _answers(observed.external.get(model.id)) or _answers(observed.replaced.get(model.id))
    return foreign + sum(engine.ready for engine in observed.engines_of(model.id)) + len(stand_ins(model, observed))


def _updated_replicas(model: DesiredModel, observed: Observed) -> int:
    if model.deployment.spec.engine.external is not None:
        return int(_answers(observed.external.get(model.id)))
    return len(observed.updated_engines_of(model.id))


def _scaling(model: DesiredModel) -> ScalingStatus | None:
    scaled = model.scaled
    if scaled is None:
        return None
    start_s = None if scaled.start_s is None else round(scaled.start_s)
    return ScalingStatus(
        desired=scaled.engines,
        reason=scaled.cause,
        last_scale_time=scaled.changed_at,
        start_seconds=start_s,
        memory_bytes=scaled.memory_bytes,
    )


def _rest(given: PolicyInput) -> Fault | None:
    """Return what is said of a model that rests; None for one that serves or cannot."""
    why = no_engine_answers(given) if given.model.wakes else None
    if why is None:
        return None
    if given.model.replicas > 0:
        return Fault(Reason.SCALED_TO_ZERO, f"Requests wait for an engine that is being started. {why.message}")
    start_s = given.model.scaled.start_s if given.model.scaled is not None else None
    takes = "" if start_s is None else f", which takes about {max(1, round(start_s))} s"
    if given.model.deployment.spec.waits_for_others:
        message = f"No engine runs. A request waits until the autoscaler of the model has started one{takes}."
        return Fault(Reason.SCALED_TO_ZERO, message)
    return Fault(Reason.SCALED_TO_ZERO, f"No engine runs. A request starts one{takes}, and waits for it.")


def _answers(probe: Probe | None) -> bool:
    return probe is not None and probe.verdict is ProbeVerdict.READY


def _is_unseen(model: DesiredModel, observed: Observed) -> bool:
    """Return whether this operator has just started and observed nothing of the model yet: the last status stands."""
    if model.id not in observed.routed:
        return False
    pending = observed.external.get(model.id, Probe()).verdict is ProbeVerdict.PENDING
    if model.deployment.spec.engine.external is None:
        running = [engine for engine in observed.engines_of(model.id) if engine.engine.phase is EnginePhase.RUNNING]
        pending = bool(running) and all(engine.probe.verdict is ProbeVerdict.PENDING for engine in running)
    return pending or (model.id not in observed.sources and not _is_stuck(model, observed))


def _is_stuck(model: DesiredModel, observed: Observed) -> bool:
    """Return whether the cluster says why no pod of the model starts, so that none reads its folder either."""
    phases = [engine.engine.phase for engine in observed.updated_engines_of(model.id)]
    return model.id in observed.rejected or (EnginePhase.BLOCKED in phases and EnginePhase.RUNNING not in phases)


def _judged(given: PolicyInput, counted: ModelStatus, old: ModelStatus | None, now: str) -> ModelStatus:
    """Return a status with its conditions."""
    conditions, generation = counted.conditions, given.model.generation
    verdicts = judge(given)
    refused, rest = is_applied(given), _rest(given)
    for kind, verdict in {**verdicts, ConditionType.APPLIED: refused}.items():
        condition = _condition(kind, verdict, now, generation)
        if kind is ConditionType.ENGINE_READY and condition.holds and rest is not None:
            condition = condition.model_copy(update={"reason": rest.reason, "message": rest.message})
        conditions = set_condition(conditions, condition)
    fault = rollout_fault(given, verdicts)
    progress = _progress(fault, counted.model_copy(update={"conditions": conditions}), old, now)
    deadline_s = given.model.deployment.spec.progress_deadline
    for condition in rollout_conditions(fault, deadline_s, generation, progress, now):
        conditions = set_condition(conditions, condition)
    status, reason, message = derive_ready(conditions)
    if status is ConditionStatus.TRUE:
        failing = None if fault is None or fault.reason in ON_THE_WAY else fault
        reason = failing.reason if failing else rest.reason if rest else reason
        said = (
            _failing_rollout(failing, given, verdicts),
            "" if rest is None else rest.message,
            _lost_names(given),
            _other_default(given),
            _unused_defaults(given),
        )
        message = " ".join(filter(None, said))
    ready = Condition(
        type=ConditionType.READY,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=now,
        observed_generation=generation,
    )
    conditions = set_condition(conditions, ready)
    return counted.model_copy(update={"conditions": conditions, "last_progress_time": progress})


def _progress(fault: Fault | None, new: ModelStatus, old: ModelStatus | None, now: str) -> str:
    """Return when a model last got on."""
    if old is None or old.last_progress_time is None:
        return now
    downloads = fault.message if fault is not None and fault.reason is Reason.DOWNLOADING else ""
    downloaded = _downloaded(old.condition(ConditionType.PROGRESSING), downloads)
    milestones = _milestones(new, downloads, done=fault is None)
    return now if milestones.is_beyond(_milestones(old, downloaded, done=old.rolled_out)) else old.last_progress_time


def _downloaded(said: Condition | None, downloads: str) -> str:
    """Return how far a download was when it was last spoken of, which now is at `downloads`."""
    if said is not None and said.reason is Reason.PROGRESS_DEADLINE_EXCEEDED and downloads in said.message:
        return downloads
    return said.message if said is not None and said.reason is Reason.DOWNLOADING else ""


def _stands_until(status: ModelStatus, model: DesiredModel) -> datetime | None:
    """Return when what is said of a model stops to be true though nothing changes; None where that does not come."""
    if status.last_progress_time is None or status.settled or status.holds(ConditionType.STALLED):
        return None
    return stalls_at(status.last_progress_time, model.deployment.spec.progress_deadline)


def _milestones(status: ModelStatus, download: str, *, done: bool) -> Milestones:
    return Milestones(
        generation=status.observed_generation,
        done=done,
        engines=status.replicas,
        ready=status.ready_replicas,
        updated=status.updated_replicas,
        reached=frozenset(one.type for one in status.conditions if one.type in _STAGES and one.holds),
        download=download,
    )


def _condition(kind: ConditionType, fault: Fault | None, now: str, generation: int) -> Condition:
    if fault is None:
        return Condition(
            type=kind,
            status=ConditionStatus.TRUE,
            reason=Reason.READY,
            last_transition_time=now,
            observed_generation=generation,
        )
    unknown = fault.reason in (Reason.WAITING, Reason.TEMPLATE_UNCHECKED)
    status = ConditionStatus.UNKNOWN if unknown else ConditionStatus.FALSE
    return Condition(
        type=kind,
        status=status,
        reason=fault.reason,
        message=fault.message,
        last_transition_time=now,
        observed_generation=generation,
    )


def _lost_names(given: PolicyInput) -> str:
    lost = given.claim.lost_names()
    return f"Serves without the names that other models hold: {lost}." if lost else ""


def _other_default(given: PolicyInput) -> str:
    other, kind = given.claim.other_default, given.model.deployment.spec.kind
    return (
        f"Serves by its names only: {other}, which is older, is the default for kind {kind}. "
        "Set spec.default to false in one of them."
        if other
        else ""
    )


def _unused_defaults(given: PolicyInput) -> str:
    facts = given.observed.sources.get(given.model.id)
    unused = ", ".join(unused_defaults(given.model, facts)) if isinstance(facts, SourceFacts) else ""
    return f"Serves without defaults of generation_config.json that its engine cannot obey: {unused}." if unused else ""


def _failing_rollout(fault: Fault | None, given: PolicyInput, verdicts: Mapping[ConditionType, Fault | None]) -> str:
    if fault is None:
        return ""
    if fault in (verdicts[ConditionType.SOURCE_READY], verdicts[ConditionType.TOKENIZER_READY]):
        return fault.message  # no engine is to blame, and it says itself what serves meanwhile
    if is_applied(given) is not None:
        return f"Serves while a change is refused: {fault.message}"
    if any(engine.ready for engine in given.observed.updated_engines_of(given.model.id)):
        return f"One engine fails while others serve: {fault.message}"
    if stand_ins(given.model, given.observed):
        return f"Serves by an engine that is about to end, and none takes its place yet: {fault.message}"
    engines = given.observed.engines_of(given.model.id)
    if engines and not any(engine.ready for engine in engines):
        return ""  # requests wait, as is said of a model that rests
    return f"Serves by engines of an older spec: {fault.message}"
