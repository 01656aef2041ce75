"""Pure: what to do so that what is there becomes what is wanted.

A plan is made anew from each observation, so it holds only steps that are safe now. Replacing an engine takes several
rounds: start one of the new spec beside the old ones, and when it answers, withdraw an old one from the route; once no
gateway uses it any more, stop it. Changes are found by a hash of the spec, not by comparing fields.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import astuple, dataclass, field

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest, EngineAddress, ModelId, PoolId
from conch_contracts.records import Engine, ModelKind, Route
from conch_operator.routes.encoder_profile import encodes_pictures, sees_among_texts
from conch_operator.routes.engine_contract import contract_of, encoder_output
from conch_operator.routes.name_claims import NameClaim, claims_of
from conch_operator.routes.route import external_engine, make_route, own_engine, scaling_fields
from conch_operator.state import (
    Desired,
    DesiredModel,
    EngineComponent,
    EngineName,
    EnginePhase,
    EngineRecipe,
    Fault,
    Observed,
    ObservedEngine,
    Probe,
    ProbeVerdict,
    RoutedModel,
    SourceFacts,
)

SURGE = 1
"""Engines beyond the wanted number while a spec is being replaced."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps to take, and the complete list of routes to publish."""

    models: tuple[DesiredModel, ...] = ()
    """Every wanted model, served or not."""
    serve: tuple[DesiredModel, ...] = ()
    """Every model that is to have engines, for a cluster that keeps their number by itself."""
    external: tuple[DesiredModel, ...] = ()
    """Every model that is served by engines of someone else."""
    start: tuple[EngineComponent, ...] = ()
    restart: tuple[EngineName, ...] = ()
    stop: tuple[EngineName, ...] = ()
    withdraw: tuple[EngineName, ...] = ()
    """Engines that are left out of their route and stop once every gateway has seen it."""
    routes: dict[ModelId, RoutedModel] = field(default_factory=dict)
    specs: dict[ModelId, str] = field(default_factory=dict)
    """The spec hash that each model's engines should have, on a cluster that is told of each engine."""
    pools: frozenset[PoolId] = frozenset()
    """Every pool that is to have a server, on a cluster that is told of each engine."""
    why: tuple[str, ...] = ()
    """One sentence per step, logged before acting."""


@dataclass(frozen=True, slots=True)
class Acted:
    """What became of a plan's steps on the cluster."""

    rejected: Mapping[ModelId, Fault] = field(default_factory=dict)
    """Why the cluster refused what was made for a model."""
    specs: Mapping[ModelId, str] = field(default_factory=dict)
    """See `Observed.specs`."""
    unapplied: frozenset[ModelId] = frozenset()
    """See `Observed.unapplied`."""


@dataclass(frozen=True, slots=True)
class _ModelPlan:
    start: tuple[EngineComponent, ...] = ()
    restart: tuple[ObservedEngine, ...] = ()
    remove: tuple[ObservedEngine, ...] = ()
    why: tuple[str, ...] = ()


Planner = Callable[[Desired, Observed], Plan]


def plan_processes(desired: Desired, observed: Observed) -> Plan:
    """Return the next safe steps on a cluster that starts and stops exactly the engines that a plan names."""
    claims = claims_of(desired, observed)
    served = served_models(desired, claims)
    steps = [_plan_engines(model, observed) for model in served]
    steps.append(_plan_leftovers({model.id for model in served}, observed))
    remove = [engine for step in steps for engine in step.remove]
    resting = _resting(served, observed)
    leaving = frozenset(engine.name for engine in remove) | resting
    return Plan(
        start=tuple(component for step in steps for component in step.start),
        restart=tuple(engine.name for step in steps for engine in step.restart),
        stop=tuple(engine.name for engine in remove if engine.withdrawn or not engine.ready),
        withdraw=(*(engine.name for engine in remove if engine.ready and not engine.withdrawn), *resting),
        routes=_routes(served, claims, observed, leaving) | _untouched(desired, observed, leaving),
        specs=_specs(served, observed),
        pools=frozenset(desired.pools),
        why=tuple(reason for step in steps for reason in step.why),
    )


def plan_workloads(desired: Desired, observed: Observed) -> Plan:
    """Return what to do on a cluster that starts, replaces and ends engines by itself.

    An engine that the cluster has begun to end is held back, and serves while there are too few others. Then it is
    withdrawn, and when every gateway has seen that, `stop` lets it end.
    """
    claims = claims_of(desired, observed)
    served = served_models(desired, claims)
    needed = {engine.name for model in served for engine in stand_ins(model, observed)}
    ending = [
        engine
        for engine in observed.engines
        if engine.engine.phase in (EnginePhase.LEAVING, EnginePhase.STOPPING) and engine.name not in needed
    ]
    resting = _resting(served, observed)
    leaving = frozenset(engine.name for engine in ending) | resting
    serving = {engine.engine.model for engine in observed.engines if engine.ready}
    dead = [engine for engine in observed.engines if _is_dead(engine, others_serve=engine.engine.model in serving)]
    return Plan(
        models=desired.models,
        serve=tuple(model for model in served if model.deployment.spec.engine.external is None),
        external=tuple(model for model in served if model.deployment.spec.engine.external is not None),
        restart=tuple(engine.name for engine in dead),
        stop=tuple(engine.name for engine in ending if engine.withdrawn),
        withdraw=tuple(leaving),
        routes=_routes(served, claims, observed, leaving) | _untouched(desired, observed, leaving),
        why=tuple(f"{engine.name}: {engine.probe.message}" for engine in dead),
    )


def served_models(desired: Desired, claims: Mapping[ModelId, NameClaim]) -> list[DesiredModel]:
    """Return the models that are to have a route."""
    return [model for model in desired.models if claims[model.id].kept]


def _resting(served: Iterable[DesiredModel], observed: Observed) -> frozenset[EngineName]:
    """Return the engines that leave their route though they stay: their models are about to go without."""
    drained = {model.id for model in served if model.drains}
    return frozenset(engine.name for engine in observed.engines if engine.engine.model in drained and engine.stays)


def engine_recipe(model: DesiredModel, facts: SourceFacts) -> EngineRecipe | None:
    """Return what the model's engines are made from; None when someone else runs them."""
    cpu = model.deployment.spec.engine.cpu
    if cpu is None:
        return None
    contract = contract_of(model)
    return EngineRecipe(
        folder=facts.folder,
        weights=facts.weights,
        triton_model=contract.triton_model,
        quantization=cpu.quantization,
        max_batch_size=cpu.max_batch_size,
        tokens_per_second=cpu.tokens_per_second,
        max_length=model.deployment.spec.generation.max_length,
        output=encoder_output(model.deployment.spec.kind),
        dialect=contract.dialect,
        sees=(facts.sees and model.deployment.spec.kind is ModelKind.LLM)
        or sees_among_texts(model.deployment.spec, facts)
        or encodes_pictures(model.deployment.spec, facts),
        pool=model.deployment.pool_id,
    )


def _specs(served: Iterable[DesiredModel], observed: Observed) -> dict[ModelId, str]:
    found = ((model, observed.sources.get(model.id)) for model in served)
    recipes = {model.id: engine_recipe(model, facts) for model, facts in found if isinstance(facts, SourceFacts)}
    return {model: spec_hash(recipe) for model, recipe in recipes.items() if recipe is not None}


def spec_hash(recipe: EngineRecipe) -> str:
    """Return a short name for what an engine is made from; equal recipes have equal ones."""
    return hashlib.sha256(repr(astuple(recipe)).encode()).hexdigest()[:10]


def stand_ins(model: DesiredModel, observed: Observed) -> list[ObservedEngine]:
    """Return the leaving engines that must go on serving until others take their place."""
    engines = observed.engines_of(model.id)
    missing = model.replicas - sum(engine.ready for engine in engines)
    return [engine for engine in engines if engine.leaving][: max(0, missing)]


def _routes(
    served: Iterable[DesiredModel],
    claims: Mapping[ModelId, NameClaim],
    observed: Observed,
    leaving: frozenset[EngineName] = frozenset(),
) -> dict[ModelId, RoutedModel]:
    """Return the complete list of routes; a model whose folder or tokenizer cannot be had keeps the one that it has."""
    routes: dict[ModelId, RoutedModel] = {}
    for model in served:
        facts, known = observed.sources.get(model.id), observed.routes.get(model.id)
        engines = _routed_engines(model, observed, leaving)
        fitting = _fitting(model, facts, observed, engines) if isinstance(facts, SourceFacts) else engines
        if isinstance(facts, SourceFacts) and observed.lacks_tokenizer(model.id, facts):
            if known is None:
                continue
            route, engines = _kept(known, claims[model.id]), _without(facts.digest, model, observed, engines)
        elif isinstance(facts, SourceFacts) and (fitting or not engines or known is None):
            route, engines = _route(model, facts, claims[model.id], observed, fitting), fitting
        elif known is not None:
            route = _kept(known, claims[model.id])
        elif facts is None and model.id in observed.routed:
            route = observed.routed[model.id][0]
        else:
            continue
        routes[model.id] = (route.model_copy(update=scaling_fields(model)), engines)
    return routes


def _fitting(
    model: DesiredModel, facts: SourceFacts, observed: Observed, engines: tuple[Engine, ...]
) -> tuple[Engine, ...]:
    """Return those engines that were started with the tokenizer of these facts, or with files that are still theirs.

    After an edit of the source the others would be sent ids that mean something else to them, so the known route stays
    until an engine of the new files answers. So does that to an engine of someone else until the one now named answers.
    """
    external = model.deployment.spec.engine.external
    if external is not None:
        return tuple(engine for engine in engines if engine == external_engine(model, external))
    started = [engine for engine in observed.engines_of(model.id) if engine.tokenizer not in (None, facts.digest)]
    if not started:
        return engines
    recipe = engine_recipe(model, facts)
    current_hash = None if recipe is None else spec_hash(recipe)
    other = {engine.engine.grpc for engine in started if engine.engine.spec_hash != current_hash}
    return tuple(engine for engine in engines if engine.grpc not in other)


def _without(
    tokenizer: Digest, model: DesiredModel, observed: Observed, engines: tuple[Engine, ...]
) -> tuple[Engine, ...]:
    """Return the engines that were not started with a tokenizer that is not to be had.

    Which tokenizer an engine of someone else has, nobody knows: one that is only now named may have the new one.
    """
    external = model.deployment.spec.engine.external
    if external is not None:
        held = observed.held_engines.get(model.id, ())
        return held if held and external_engine(model, external) not in held else engines
    started = {engine.engine.grpc for engine in observed.engines_of(model.id) if engine.tokenizer == tokenizer}
    return tuple(engine for engine in engines if engine.grpc not in started)


def _route(
    model: DesiredModel, facts: SourceFacts, claim: NameClaim, observed: Observed, engines: tuple[Engine, ...]
) -> Route:
    """Return the model's route; while engines of an older spec serve, it has the shortest length of all that do."""
    routed = {engine.grpc for engine in engines}
    started = [
        engine.engine.contract.max_length for engine in observed.engines_of(model.id) if engine.engine.grpc in routed
    ]
    return make_route(model, facts, claim.kept, started)


def _kept(known: Route, claim: NameClaim) -> Route:
    return known.model_copy(update={"served_names": claim.kept})


def _untouched(desired: Desired, observed: Observed, leaving: frozenset[EngineName]) -> dict[ModelId, RoutedModel]:
    """Return the routes of models that cannot be read: what is there, with the engines that answer."""
    routes: dict[ModelId, RoutedModel] = {}
    for model in desired.unreadable.keys() & observed.routes.keys():
        ours = observed.engines_of(model)
        held = observed.held_engines.get(model, ())
        if ours:
            held = _answering(ours, frozenset(engine.grpc for engine in held), leaving)
        routes[model] = (observed.routes[model], held)
    return routes


def _plan_engines(model: DesiredModel, observed: Observed) -> _ModelPlan:
    present = observed.engines_of(model.id)
    facts = observed.sources.get(model.id)
    if not isinstance(facts, SourceFacts):
        return _ModelPlan()  # The folder cannot be read: what runs goes on running.
    recipe = engine_recipe(model, facts)
    wanted = 0 if recipe is None else model.replicas
    current_hash = "" if recipe is None else spec_hash(recipe)
    staying = [engine for engine in present if engine.engine.phase is not EnginePhase.STOPPING]
    current = [engine for engine in staying if engine.engine.spec_hash == current_hash]
    old = [engine for engine in staying if engine.engine.spec_hash != current_hash]
    successors = [] if observed.lacks_tokenizer(model.id, facts) else current
    taken = {} if model.scaled is None else model.scaled.taken
    remove = (*_surplus(current, wanted, taken), *_replaceable(old, successors, wanted))
    serving = any(engine.ready for engine in present)
    restart = tuple(engine for engine in current if _is_dead(engine, others_serve=serving) and engine not in remove)
    room = wanted + SURGE - len(staying) if old else wanted
    lacks = 0 if model.drains else min(wanted - len(current), room)
    start = _missing(model, recipe, facts.digest, present, lacks) if recipe else ()
    return _ModelPlan(start, restart, remove, _why(start, restart, remove, old))


def _surplus(
    current: Sequence[ObservedEngine], wanted: int, taken: Mapping[EngineAddress, int]
) -> list[ObservedEngine]:
    """Return the engines beyond the wanted number: those that go already, are not ready or have the least to do."""
    by_worth = sorted(current, key=lambda one: (one.withdrawn, not one.ready, -taken.get(one.engine.grpc, 0), one.name))
    return by_worth[wanted:]


def _replaceable(old: Sequence[ObservedEngine], current: Sequence[ObservedEngine], wanted: int) -> list[ObservedEngine]:
    """Return the engines of an older spec that can go without leaving fewer ready ones than wanted."""
    ready = [engine for engine in old if engine.ready]
    needed = max(0, wanted - sum(engine.ready for engine in current))
    return [engine for engine in old if not engine.ready] + ready[needed:]


def _missing(
    model: DesiredModel, recipe: EngineRecipe, tokenizer: Digest, present: Sequence[ObservedEngine], count: int
) -> tuple[EngineComponent, ...]:
    """Return so many engines to start, under names that nothing has."""
    taken = {engine.name for engine in present}
    current_hash = spec_hash(recipe)
    names = (engine_name(model, current_hash, index) for index in range(len(taken) + max(0, count)))
    free = [name for name in names if name not in taken][: max(0, count)]
    contract = contract_of(model)
    return tuple(EngineComponent(name, model.id, current_hash, recipe, contract, tokenizer) for name in free)


def engine_name(model: DesiredModel, current_hash: str, index: int) -> EngineName:
    """Return the name of one engine of a model."""
    return EngineName(f"{model.deployment.metadata.name}-{current_hash}-{index}")


def _plan_leftovers(served: set[ModelId], observed: Observed) -> _ModelPlan:
    left = tuple(
        engine
        for engine in observed.engines
        if engine.engine.model not in served and engine.engine.phase is not EnginePhase.STOPPING
    )
    return _ModelPlan(remove=left, why=tuple(f"{engine.name}: its model is no longer wanted" for engine in left))


def _routed_engines(model: DesiredModel, observed: Observed, leaving: frozenset[EngineName]) -> tuple[Engine, ...]:
    external = model.deployment.spec.engine.external
    if external is not None:
        verdict = observed.external.get(model.id, Probe()).verdict
        if verdict is ProbeVerdict.READY:
            return (external_engine(model, external),)
        serves = verdict is ProbeVerdict.PENDING or replaced_engine_serves(model.id, observed)
        return observed.held_engines.get(model.id, ()) if serves else ()
    before = {engine.grpc for engine in observed.routed[model.id][1]} if model.id in observed.routed else set()
    return _answering(observed.engines_of(model.id), before, leaving)


def replaced_engine_serves(model: ModelId, observed: Observed) -> bool:
    """Return whether the external engine that the spec named before answers, or was not asked yet."""
    probe = observed.replaced.get(model)
    return probe is not None and probe.verdict in (ProbeVerdict.READY, ProbeVerdict.PENDING)


def _answering(
    engines: Iterable[ObservedEngine], before: Set[EngineAddress], leaving: frozenset[EngineName]
) -> tuple[Engine, ...]:
    """Return those of our own engines to which requests may go; `before`: those that were in use."""
    return tuple(
        own_engine(engine.engine)
        for engine in engines
        if engine.engine.phase in (EnginePhase.RUNNING, EnginePhase.LEAVING)
        and _may_serve(engine.probe, engine.engine.grpc in before)
        and engine.name not in leaving
    )


def _may_serve(probe: Probe, served_before: bool) -> bool:
    """Return whether requests may go to an engine: it answered, or it was in use and has not been asked yet."""
    return probe.verdict is ProbeVerdict.READY or (probe.verdict is ProbeVerdict.PENDING and served_before)


def _is_dead(engine: ObservedEngine, *, others_serve: bool) -> bool:
    """Return whether to start an engine again; loading in vain once more must not burden others that serve."""
    dead = engine.engine.phase is EnginePhase.RUNNING and engine.probe.verdict is ProbeVerdict.DEAD
    return dead and not (others_serve and engine.probe.reason is Reason.ENGINE_LOAD_FAILED)


def _why(
    start: Sequence[EngineComponent],
    restart: Sequence[ObservedEngine],
    remove: Sequence[ObservedEngine],
    old: Sequence[ObservedEngine],
) -> tuple[str, ...]:
    replaced, surplus = "engines of the new spec take its place", "more engines run than wanted"
    return (
        *(f"{component.name}: an engine of this spec is missing" for component in start),
        *(f"{engine.name}: {engine.probe.message}" for engine in restart),
        *(f"{engine.name}: {replaced if engine in old else surplus}" for engine in remove),
    )
