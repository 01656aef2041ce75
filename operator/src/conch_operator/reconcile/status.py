"""Pure: from an observation to the status that users read, the same fields on a laptop and on a cluster."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from conch_contracts.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
    derive_ready,
    set_condition,
)
from conch_contracts.names import Digest, ModelId, ServedName
from conch_operator.reconcile.readiness import PolicyInput, failing_engine, is_applied, judge
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
    Published,
    SourceFacts,
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
    tokenizer_digest: Digest | None
    conditions: tuple[Condition, ...]

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return one condition, None before it was first judged."""
        return next((condition for condition in self.conditions if condition.type is kind), None)

    @property
    def ready(self) -> bool:
        """Return whether the model serves."""
        condition = self.condition(ConditionType.READY)
        return condition is not None and condition.status is ConditionStatus.TRUE


Statuses = Mapping[ModelId, ModelStatus]


def describe(desired: Desired, observed: Observed, published: Published, before: Statuses, now: str) -> Statuses:
    """Return the status of every wanted model; `now` is the time for conditions that change."""
    claims = claims_of(desired, observed)
    statuses: dict[ModelId, ModelStatus] = {}
    for model in desired.models:
        given = PolicyInput(model, claims[model.id], observed, published)
        facts = observed.sources.get(model.id)
        old = before.get(model.id)
        if (
            old is not None
            and old.ready
            and _is_unseen(model, observed)
            and old.observed_generation == model.generation
        ):
            statuses[model.id] = old
            continue
        statuses[model.id] = ModelStatus(
            model_id=model.id,
            served_names=given.claim.kept,
            replicas=_replicas(model, observed),
            observed_generation=model.generation,
            ready_replicas=_ready_replicas(model.id, observed),
            tokenizer_digest=facts.digest if isinstance(facts, SourceFacts) else None,
            conditions=_conditions(given, old.conditions if old else (), now),
        )
    return statuses


def _replicas(model: DesiredModel, observed: Observed) -> int:
    if model.deployment.spec.engine.external is not None:
        return 1
    going = (EnginePhase.LEAVING, EnginePhase.STOPPING)
    return sum(engine.engine.phase not in going for engine in observed.engines_of(model.id))


def _ready_replicas(model: ModelId, observed: Observed) -> int:
    external = observed.external.get(model)
    ready = 1 if external is not None and external.verdict is ProbeVerdict.READY else 0
    return ready + sum(engine.ready for engine in observed.engines_of(model))


def _is_unseen(model: DesiredModel, observed: Observed) -> bool:
    """Return whether this operator has just started and observed nothing of the model yet: the last status stands."""
    if model.id not in observed.routed:
        return False
    pending = observed.external.get(model.id, Probe()).verdict is ProbeVerdict.PENDING
    if model.deployment.spec.engine.external is None:
        running = [engine for engine in observed.engines_of(model.id) if engine.engine.phase is EnginePhase.RUNNING]
        pending = bool(running) and all(engine.probe.verdict is ProbeVerdict.PENDING for engine in running)
    return pending or model.id not in observed.sources


def _conditions(given: PolicyInput, conditions: tuple[Condition, ...], now: str) -> tuple[Condition, ...]:
    generation = given.model.generation
    for kind, fault in judge(given).items():
        conditions = set_condition(conditions, _condition(kind, fault, now, generation))
    refused = is_applied(given)
    conditions = set_condition(conditions, _condition(ConditionType.APPLIED, refused, now, generation))
    status, reason, message = derive_ready(conditions)
    if status is ConditionStatus.TRUE:
        reason = refused.reason if refused else reason
        said = (
            _refused(refused),
            _lost_names(given),
            _other_default(given),
            _unused_defaults(given),
            _failing_engine(given),
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
    return set_condition(conditions, ready)


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
    lost = ", ".join(f"{name} (held by {owner})" for name, owner in given.claim.lost.items())
    return f"Serves without the names that older models hold: {lost}." if lost else ""


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


def _refused(fault: Fault | None) -> str:
    return f"Serves while a change is refused: {fault.message}" if fault else ""


def _failing_engine(given: PolicyInput) -> str:
    fault = failing_engine(given)
    return f"One engine fails while others serve: {fault.message}" if fault else ""
