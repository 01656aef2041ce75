"""Pure: why a model is not ready yet.

Readiness is a chain of policies. Each looks at one observation and returns a fault or None. The first fault gives its
condition the reason, and a message with the root cause and the next step; the conditions behind it wait.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from conch_contracts.conditions import ConditionType, Reason
from conch_contracts.records import needed_pools
from conch_operator.reconcile.plan import is_served
from conch_operator.routes.name_claims import NameClaim
from conch_operator.state import (
    DesiredModel,
    EnginePhase,
    Fault,
    Observed,
    ObservedEngine,
    Probe,
    ProbeVerdict,
    Published,
    SourceFacts,
    SourceFault,
)


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """What the policies look at: one model, and everything observed about it."""

    model: DesiredModel
    claim: NameClaim
    observed: Observed
    published: Published


Policy = Callable[[PolicyInput], Fault | None]

_TOKENIZER_REASONS = (
    Reason.TOKENIZER_INVALID,
    Reason.TEMPLATE_INVALID,
    Reason.TEMPLATE_UNCHECKED,
    Reason.CONFIG_MAP_NOT_FOUND,
)


def kind_is_served(given: PolicyInput) -> Fault | None:
    """Object to what this version cannot serve."""
    if is_served(given.model):
        return None
    spec = given.model.deployment.spec
    message = f"No worker of this version speaks the tensors that {spec.engine.runtime} has for kind {spec.kind}; "
    return Fault(Reason.RUNTIME_NOT_SERVED, f"{message}its engines are not started.")


def has_a_name(given: PolicyInput) -> Fault | None:
    """Object when older models hold every served name."""
    if given.claim.kept:
        return None
    taken = ", ".join(f"{name} (held by {owner})" for name, owner in given.claim.lost.items())
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
    """Object until a one-token request through at least one engine has succeeded."""
    if given.model.deployment.spec.engine.external is not None:
        return _of_external(given.observed.external.get(given.model.id, Probe()))
    if (obstacle := _obstacle(given)) is not None:
        return obstacle
    if (idle := _no_engine_is_wanted(given)) is not None:
        return idle
    if any(engine.ready for engine in given.observed.engines_of(given.model.id)):
        return None
    starting = Fault(Reason.ENGINE_STARTING, "The engine is being started.")
    return failing_engine(given) or next((_of_engine(engine) for engine in _staying(given)), starting)


def failing_engine(given: PolicyInput) -> Fault | None:
    """Return what is wrong with the first engine that fails, while others may serve."""
    staying = _staying(given)
    serving = any(engine.ready for engine in staying)
    faults = (_of_engine(engine, others_serve=serving) for engine in staying if not engine.ready)
    return next((fault for fault in faults if fault.reason is not Reason.ENGINE_STARTING), None)


def is_applied(given: PolicyInput) -> Fault | None:
    """Object while the cluster refuses what is made for the model, whether older engines serve or not."""
    refused = given.observed.rejected.get(given.model.id)
    return refused if refused is not None and refused.reason in (Reason.REJECTED, Reason.NOT_HERE) else None


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
    ConditionType.SOURCE_READY: (kind_is_served, has_a_name, source_is_readable),
    ConditionType.TOKENIZER_READY: (tokenizer_is_packed, tokenizer_is_stored),
    ConditionType.ENGINE_READY: (engine_answers,),
    ConditionType.ROUTE_PUBLISHED: (route_is_published,),
    ConditionType.WORKERS_READY: (workers_are_there,),
}


def judge(given: PolicyInput) -> dict[ConditionType, Fault | None]:
    """Return what each condition's policies say; those behind the first fault wait for it."""
    verdicts: dict[ConditionType, Fault | None] = {}
    first: ConditionType | None = None
    for condition, policies in CHAIN.items():
        if first is not None:
            verdicts[condition] = Fault(Reason.WAITING, f"Waits for {first}.")
            continue
        verdicts[condition] = next((fault for policy in policies if (fault := policy(given))), None)
        first = condition if verdicts[condition] else None
    return verdicts


def _of_source(found: Fault, given: PolicyInput) -> Fault:
    served = given.model.id in given.published.models
    before = f"{found.message.rstrip('.')}. Until then the model is served as before."
    return Fault(found.reason, before if served else found.message)


def _staying(given: PolicyInput) -> list[ObservedEngine]:
    engines = given.observed.engines_of(given.model.id)
    return [engine for engine in engines if engine.engine.phase is not EnginePhase.STOPPING]


def _obstacle(given: PolicyInput) -> Fault | None:
    """Return why the cluster does not get any engine of the model to run."""
    engines = given.observed.engines_of(given.model.id)
    if any(engine.ready for engine in engines):
        return None
    refused = given.observed.rejected.get(given.model.id)
    blocked = (engine.engine.fault for engine in engines if engine.engine.phase is EnginePhase.BLOCKED)
    return refused or next((fault for fault in blocked if fault is not None), None)


def _no_engine_is_wanted(given: PolicyInput) -> Fault | None:
    spec = given.model.deployment.spec
    if spec.engine.external is not None or spec.replicas > 0:
        return None
    return Fault(Reason.NO_REPLICAS, "spec.replicas is 0; set it to 1 or more to serve the model.")


def _of_engine(engine: ObservedEngine, *, others_serve: bool = False) -> Fault:
    if engine.engine.fault is not None:
        return engine.engine.fault
    if engine.engine.phase is EnginePhase.EXITED:
        return Fault(Reason.ENGINE_EXITED, f"{engine.name} {engine.engine.detail} It is started again.")
    fault = _of_probe(engine.probe)
    if fault is None or not fault.message or fault.reason is Reason.ENGINE_UNREACHABLE:
        return Fault(Reason.ENGINE_STARTING, f"{engine.name} is starting.")
    message = f"{engine.name}: {fault.message}"
    if fault.reason is not Reason.ENGINE_LOAD_FAILED:
        return Fault(fault.reason, message)
    when = "when no other engine of the model serves" if others_serve else "by itself, until it loads"
    return Fault(fault.reason, f"{message.rstrip('.')}. Mend the cause; the engine is started again {when}.")


def _of_external(probe: Probe) -> Fault | None:
    fault = _of_probe(probe)
    if fault is None or fault.reason is not Reason.ENGINE_UNREACHABLE:
        return fault
    return Fault(fault.reason, f"{fault.message.rstrip('.')}. Check spec.engine.external and the way to the server.")


def _of_probe(probe: Probe) -> Fault | None:
    return None if probe.verdict is ProbeVerdict.READY else Fault(probe.reason, probe.message)
