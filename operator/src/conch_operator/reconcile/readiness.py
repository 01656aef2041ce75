"""Pure: why a model is not ready yet, and what of that for which its spec asks is not there yet.

Readiness is a chain of policies. Each looks at one observation and returns a fault or None. The first fault gives its
condition the reason, and a message with the root cause and the next step; the conditions behind it wait. Where requests
reach an engine, of an older spec perhaps, the conditions that they need are judged whatever became of the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from conch_contracts.conditions import SERVING, ConditionType, Reason
from conch_contracts.names import ModelId
from conch_contracts.records import needed_pools
from conch_operator.reconcile.plan import replaced_engine_serves, stand_ins
from conch_operator.routes.name_claims import NameClaim
from conch_operator.routes.route import wants_engines
from conch_operator.state import (
    DesiredModel,
    EnginePhase,
    Fault,
    Observed,
    ObservedEngine,
    Probe,
    ProbeVerdict,
    SourceFacts,
    SourceFault,
)


@dataclass(frozen=True, slots=True)
class Published:
    """What became of the last attempt to publish routes."""

    models: frozenset[ModelId] = frozenset()
    error: str | None = None
    """Why the registry could not be written."""


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """What the policies look at: one model, and everything observed about it."""

    model: DesiredModel
    claim: NameClaim
    observed: Observed
    published: Published


Policy = Callable[[PolicyInput], Fault | None]

_NEXT_STEP = "Check spec.engine.external, the way to the server, and whether the cluster lets models use the address."

_TOKENIZER_REASONS = (
    Reason.TOKENIZER_INVALID,
    Reason.TEMPLATE_INVALID,
    Reason.TEMPLATE_UNCHECKED,
    Reason.CONFIG_MAP_NOT_FOUND,
)


def has_a_name(given: PolicyInput) -> Fault | None:
    """Object when other models hold every served name."""
    if given.claim.kept:
        return None
    taken = given.claim.lost_names()
    return Fault(Reason.NAME_CONFLICT, f"Every served name is taken: {taken}. Choose another in spec.servedNames.")


def source_is_readable(given: PolicyInput) -> Fault | None:
    """Object to a folder that is missing or incomplete."""
    found = given.observed.sources.get(given.model.id)
    if found is None:
        reading = Fault(Reason.WAITING, "The model's folder is being read.")
        return _obstacle(given) or _no_engine_is_wanted(given) or reading
    if isinstance(found, SourceFault) and found.reason is Reason.WAITING:
        return _obstacle(given) or found
    if isinstance(found, SourceFault) and found.reason not in _TOKENIZER_REASONS:
        return _of_source(found, given)
    return None


def tokenizer_is_packed(given: PolicyInput) -> Fault | None:
    """Object to a tokenizer that cannot be used."""
    found = given.observed.sources.get(given.model.id)
    return _of_source(found, given) if isinstance(found, SourceFault) else None


def tokenizer_is_stored(given: PolicyInput) -> Fault | None:
    """Object to a tokenizer that the data plane cannot get, unless it has it already."""
    facts = given.observed.sources.get(given.model.id)
    if not isinstance(facts, SourceFacts) or not given.observed.lacks_tokenizer(given.model.id, facts):
        return None
    cause = given.observed.unstored[facts.digest].rstrip(".")
    message = f"The tokenizer's bundle cannot be stored in the registry: {cause}. It is tried again."
    return _of_source(Fault(Reason.TOKENIZER_NOT_STORED, message), given)


def engine_answers(given: PolicyInput) -> Fault | None:
    """Object until a one-token request through at least one engine has succeeded, or can count on one that starts."""
    return None if given.model.wakes else no_engine_answers(given)


def no_engine_answers(given: PolicyInput) -> Fault | None:
    """Return why no engine answers now."""
    if (idle := _no_engine_is_wanted(given)) is not None:
        return idle
    if an_engine_serves(given):
        return None
    if given.model.deployment.spec.engine.external is not None:
        return _of_external(given.observed.external.get(given.model.id, Probe()))
    if (obstacle := _obstacle(given)) is not None:
        return obstacle
    staying: Sequence[ObservedEngine] = given.observed.updated_engines_of(given.model.id)
    if given.model.id not in given.observed.specs:  # nobody can tell which of them are of this spec
        staying = [engine for engine in given.observed.engines_of(given.model.id) if engine.stays]
    starting = Fault(Reason.ENGINE_STARTING, "The engine is being started.")
    return _first_that_fails(staying) or next((_of_engine(engine) for engine in staying), starting)


def an_engine_serves(given: PolicyInput) -> bool:
    """Return whether an engine answers requests; one that is to end counts while no other takes its place."""
    if given.model.deployment.spec.engine.external is None:
        return _ready(given.observed.engines_of(given.model.id)) > 0 or bool(stand_ins(given.model, given.observed))
    verdict = given.observed.external.get(given.model.id, Probe()).verdict
    held = given.observed.held_engines.get(given.model.id)
    if verdict is ProbeVerdict.READY or (verdict is ProbeVerdict.PENDING and bool(held)):
        return True
    return replaced_engine_serves(given.model.id, given.observed)


def engines_are_as_asked_for(given: PolicyInput) -> Fault | None:
    """Object until as many engines of this very spec answer as it asks for, and no other is left."""
    spec, observed = given.model.deployment.spec, given.observed
    if spec.engine.external is not None:
        return _of_external(observed.external.get(given.model.id, Probe()))
    updated = observed.updated_engines_of(given.model.id)
    wanted = given.model.replicas
    if (ready := _ready(updated)) < wanted:
        count = Fault(Reason.ROLLING_OUT, f"{ready} of {wanted} engines of this spec answer.")
        return _first_that_fails(updated) or count
    left = sum(engine.stays for engine in observed.engines_of(given.model.id)) - wanted
    return Fault(Reason.ROLLING_OUT, f"{left} engines more than wanted are being ended.") if left > 0 else None


def is_applied(given: PolicyInput) -> Fault | None:
    """Object while the cluster refuses what is made for the model, whether older engines serve or not."""
    rejected = given.observed.rejected.get(given.model.id)
    return rejected if rejected is not None and rejected.reason in (Reason.REJECTED, Reason.NOT_HERE) else None


def route_is_published(given: PolicyInput) -> Fault | None:
    """Object until the data plane can read the route."""
    if given.published.error is not None:
        cause = given.published.error.rstrip(".")
        message = f"The registry cannot be written: {cause}. Known routes go on serving; check Redis."
        return Fault(Reason.REGISTRY_UNAVAILABLE, message)
    if given.model.id not in given.published.models:
        return Fault(Reason.ROUTE_PENDING, "The route is about to be written.")
    return None


def workers_are_there(given: PolicyInput) -> Fault | None:
    """Object when a pool that the model needs has no process."""
    pools = needed_pools(given.model.deployment.spec.kind)
    empty = [pool for pool in pools if not given.observed.workers.get(pool)]
    if not empty:
        return None
    message = f"No {' and no '.join(empty)} process has announced itself; see the logs of that service."
    return Fault(Reason.WORKERS_MISSING, message)


CHAIN: Mapping[ConditionType, tuple[Policy, ...]] = {
    ConditionType.SOURCE_READY: (has_a_name, source_is_readable),
    ConditionType.TOKENIZER_READY: (tokenizer_is_packed, tokenizer_is_stored),
    ConditionType.ENGINE_READY: (engine_answers,),
    ConditionType.ROUTE_PUBLISHED: (route_is_published,),
    ConditionType.WORKERS_READY: (workers_are_there,),
}


def judge(given: PolicyInput) -> dict[ConditionType, Fault | None]:
    """Return what each condition's policies say; those behind the first fault wait for it."""
    apart = SERVING if _may_serve(given) and engine_answers(given) is None else ()
    asked = _in_turn([condition for condition in CHAIN if condition not in apart], given)
    return asked | _in_turn(apart, given)


def _may_serve(given: PolicyInput) -> bool:
    """Return whether requests may come to the model: it has a name and a route, or the registry does not tell."""
    routed = given.model.id in given.published.models or given.published.error is not None
    return routed and has_a_name(given) is None


def _in_turn(conditions: Sequence[ConditionType], given: PolicyInput) -> dict[ConditionType, Fault | None]:
    verdicts: dict[ConditionType, Fault | None] = {}
    first: ConditionType | None = None
    for condition in conditions:
        if first is not None:
            verdicts[condition] = Fault(Reason.WAITING, f"Waits for {first}.")
            continue
        verdicts[condition] = next((fault for policy in CHAIN[condition] if (fault := policy(given))), None)
        first = condition if verdicts[condition] else None
    return verdicts


def rollout_fault(given: PolicyInput, verdicts: Mapping[ConditionType, Fault | None]) -> Fault | None:
    """Return what of that for which the spec asks is not there yet, or fails; None once all of it serves."""
    first = next((fault for kind, fault in verdicts.items() if fault and kind not in SERVING), None)
    if first is not None and first.reason is not Reason.NO_REPLICAS:
        return first
    missing = is_applied(given) or engines_are_as_asked_for(given)
    if missing is not None or _no_engine_is_wanted(given) is not None:
        return missing
    return next((fault for fault in verdicts.values() if fault is not None), None)


def _of_source(found: Fault, given: PolicyInput) -> Fault:
    served = given.model.id in given.published.models and an_engine_serves(given)
    before = f"{found.message.rstrip('.')}. Until then the model is served as before."
    return Fault(found.reason, before if served else found.message)


def _ready(engines: Sequence[ObservedEngine]) -> int:
    return sum(engine.ready for engine in engines)


def _first_that_fails(engines: Sequence[ObservedEngine]) -> Fault | None:
    faults = (_of_engine(engine) for engine in engines if not engine.ready)
    return next((fault for fault in faults if fault.reason is not Reason.ENGINE_STARTING), None)


def _obstacle(given: PolicyInput) -> Fault | None:
    """Return why the cluster does not get any engine of the spec to run."""
    engines = given.observed.updated_engines_of(given.model.id)
    if _ready(engines):
        return None
    rejected = given.observed.rejected.get(given.model.id)
    blocked = (engine.engine.fault for engine in engines if engine.engine.phase is EnginePhase.BLOCKED)
    obstacle = None if given.model.scaled is None else given.model.scaled.obstacle
    return rejected or next((fault for fault in blocked if fault is not None), obstacle)


def _no_engine_is_wanted(given: PolicyInput) -> Fault | None:
    decided_here = given.model.scaled is not None and not given.model.deployment.spec.waits_for_others
    if wants_engines(given.model) or decided_here:
        return None
    return Fault(Reason.NO_REPLICAS, "spec.replicas is 0; set it to 1 or more to serve the model.")


def _of_engine(engine: ObservedEngine) -> Fault:
    if engine.engine.fault is not None:
        return engine.engine.fault
    if engine.engine.phase is EnginePhase.EXITED:
        return Fault(Reason.ENGINE_EXITED, f"{engine.name} {engine.engine.detail} It is started again.")
    fault = _of_probe(engine.probe)
    if fault is None or not fault.message or fault.reason is Reason.ENGINE_UNREACHABLE:
        return _of_start(engine)
    message = f"{engine.name}: {fault.message}"
    if fault.reason is not Reason.ENGINE_LOAD_FAILED:
        return Fault(fault.reason, message)
    return Fault(fault.reason, f"{message.rstrip('.')}. Mend the cause; the engine is started again until it loads.")


def _of_start(engine: ObservedEngine) -> Fault:
    """Return what an engine that has not answered yet is about; how it ended before stays the reason until it has."""
    if engine.engine.incarnation > 0 and engine.engine.detail:
        ended = f"{engine.name} {engine.engine.detail} It has been started again and has not answered yet."
        return Fault(Reason.ENGINE_EXITED, ended)
    return Fault(Reason.ENGINE_STARTING, f"{engine.name} is starting.")


def _of_external(probe: Probe) -> Fault | None:
    fault = _of_probe(probe)
    if fault is None or fault.reason is not Reason.ENGINE_UNREACHABLE:
        return fault
    return Fault(fault.reason, f"{fault.message.rstrip('.')}. {_NEXT_STEP}")


def _of_probe(probe: Probe) -> Fault | None:
    return None if probe.verdict is ProbeVerdict.READY else Fault(probe.reason, probe.message)
