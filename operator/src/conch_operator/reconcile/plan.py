"""Pure, but for routes that are remembered: what to do so that what is there becomes what is wanted.

A plan is made anew from each observation, so it holds only steps that are safe now. `engine_steps` says which engines
of a model come and go, on a cluster that is told of each; here is what that means for routes.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field

from conch_contracts.names import Digest, EngineAddress, ModelId, PoolId
from conch_contracts.records import Engine, Route
from conch_contracts.spec.engine_pool import EnginePoolSpec
from conch_operator.reconcile.engine_steps import (
    engine_recipe,
    engine_steps,
    is_dead,
    leftover_steps,
    pooled_steps,
    spec_hash,
)
from conch_operator.routes.known_routes import KnownRoutes
from conch_operator.routes.name_claims import NameClaim, claims_of
from conch_operator.routes.route import external_engine, own_engine
from conch_operator.state import (
    Desired,
    DesiredModel,
    EngineComponent,
    EngineName,
    EnginePhase,
    Fault,
    Observed,
    ObservedEngine,
    Probe,
    ProbeVerdict,
    RoutedModel,
    SourceFacts,
)

UnknownRoutes = Mapping[ModelId, tuple[Engine, ...]]
"""The engines of models whose route is not known."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps to take, and the complete list of models to publish."""

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
    unknown: UnknownRoutes = field(default_factory=dict)
    """What is known of wanted models in place of a route: a gateway that has one keeps it."""
    specs: dict[ModelId, str] = field(default_factory=dict)
    """The spec hash that the engines of models should have of which the cluster is told each."""
    pools: Mapping[PoolId, EnginePoolSpec] = field(default_factory=dict)
    """Every pool that is to have a server."""
    why: tuple[str, ...] = ()
    """One sentence per step, logged before acting."""


@dataclass(frozen=True, slots=True)
class Acted:
    """What became of a plan's steps on the cluster; `specs` and `unapplied` are those of Observed."""

    rejected: Mapping[ModelId, Fault] = field(default_factory=dict)
    """Why the cluster refused what was made for a model."""
    specs: Mapping[ModelId, str] = field(default_factory=dict)
    unapplied: frozenset[ModelId] = frozenset()


Planner = Callable[[Desired, Observed], Plan]


def plan_processes(desired: Desired, observed: Observed, known: KnownRoutes | None = None) -> Plan:
    """Return the next safe steps on a cluster that starts and stops exactly the engines that a plan names."""
    claims = claims_of(desired, observed)
    served = served_models(desired, claims)
    steps = [engine_steps(model, observed) for model in served]
    steps.append(leftover_steps({model.id for model in served}, observed))
    remove = [engine for step in steps for engine in step.remove]
    draining = _draining(served, observed)
    leaving = frozenset(engine.name for engine in remove) | draining
    specs = _specs(served, observed)
    routes = _routes(served, claims, observed, leaving, known or KnownRoutes(), specs)
    routes |= _untouched(desired, observed, leaving)
    return Plan(
        start=tuple(component for step in steps for component in step.start),
        restart=tuple(engine.name for step in steps for engine in step.restart),
        stop=tuple(engine.name for engine in remove if engine.withdrawn or not engine.ready),
        withdraw=(*(engine.name for engine in remove if engine.ready and not engine.withdrawn), *draining),
        routes=routes,
        unknown=_unknown(served, desired, observed, leaving, routes),
        specs=specs,
        pools=desired.pools,
        why=tuple(reason for step in steps for reason in step.why),
    )


def plan_workloads(desired: Desired, observed: Observed, known: KnownRoutes | None = None) -> Plan:
    """Return what to do on a cluster that starts, replaces and ends engines by itself.

    An engine that the cluster has begun to end is held back, and serves while there are too few others. Then it is
    withdrawn, and when every gateway has seen that, `stop` lets it end. Of models in pools it is told what to load.
    """
    claims = claims_of(desired, observed)
    served = served_models(desired, claims)
    placed = [model for model in served if model.deployment.pool_id in desired.pools]
    steps = pooled_steps(placed, desired, observed)
    remove = [engine for step in steps for engine in step.remove]
    needed = {engine.name for model in served for engine in stand_ins(model, observed)}
    ending = [
        engine
        for engine in observed.engines
        if engine.engine.phase in (EnginePhase.LEAVING, EnginePhase.STOPPING) and engine.name not in needed
    ]
    draining = _draining(served, observed)
    leaving = frozenset(engine.name for engine in (*ending, *remove)) | draining
    pooled = _specs([model for model in served if model.deployment.pool_id is not None], observed)
    dead = [engine for engine in observed.engines if is_dead(engine)]
    routes = _routes(served, claims, observed, leaving, known or KnownRoutes(), {**observed.specs, **pooled})
    routes |= _untouched(desired, observed, leaving)
    return Plan(
        models=desired.models,
        serve=tuple(model for model in served if _has_workload(model)),
        external=tuple(model for model in served if model.deployment.spec.engine.external is not None),
        start=tuple(component for step in steps for component in step.start),
        restart=tuple(engine.name for engine in dead),
        stop=(
            *(engine.name for engine in ending if engine.withdrawn),
            *(engine.name for engine in remove if engine.withdrawn or not engine.ready),
        ),
        withdraw=tuple(leaving),
        routes=routes,
        unknown=_unknown(served, desired, observed, leaving, routes),
        specs=_specs(placed, observed),
        pools=desired.pools,
        why=(
            *(f"{engine.name}: {engine.probe.message}" for engine in dead),
            *(reason for step in steps for reason in step.why),
        ),
    )


def _has_workload(model: DesiredModel) -> bool:
    """Return whether engines are made for a model alone."""
    spec = model.deployment.spec
    return spec.engine.external is None and spec.placement is None


def served_models(desired: Desired, claims: Mapping[ModelId, NameClaim]) -> list[DesiredModel]:
    """Return the models that are to have a route."""
    return [model for model in desired.models if claims[model.id].kept]


def _unknown(
    served: Iterable[DesiredModel],
    desired: Desired,
    observed: Observed,
    leaving: frozenset[EngineName],
    routes: Mapping[ModelId, RoutedModel],
) -> dict[ModelId, tuple[Engine, ...]]:
    wanted = {model.id for model in served} | desired.unreadable.keys()
    return {model: _answering(observed.engines_of(model), set(), leaving) for model in wanted - routes.keys()}


def _draining(served: Iterable[DesiredModel], observed: Observed) -> frozenset[EngineName]:
    """Return the engines that leave their route though they stay: their models are about to go without."""
    draining = {model.id for model in served if model.drains}
    return frozenset(engine.name for engine in observed.engines if engine.engine.model in draining and engine.stays)


def _specs(served: Iterable[DesiredModel], observed: Observed) -> dict[ModelId, str]:
    found = ((model, observed.sources.get(model.id)) for model in served)
    hashes = {model.id: _current_hash(model, facts) for model, facts in found if isinstance(facts, SourceFacts)}
    return {model: current for model, current in hashes.items() if current is not None}


def stand_ins(model: DesiredModel, observed: Observed) -> list[ObservedEngine]:
    """Return the leaving engines that must go on serving until others take their place."""
    engines = observed.engines_of(model.id)
    missing = model.replicas - sum(engine.ready for engine in engines)
    return [engine for engine in engines if engine.leaving][: max(0, missing)]


def _routes(
    served: Iterable[DesiredModel],
    claims: Mapping[ModelId, NameClaim],
    observed: Observed,
    leaving: frozenset[EngineName],
    made: KnownRoutes,
    specs: Mapping[ModelId, str],
) -> dict[ModelId, RoutedModel]:
    """Return the complete list of routes; a model whose folder or tokenizer cannot be had keeps the one that it has.

    `specs`: of each model the hash of what its engines are made from now, where it is known.
    """
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
            started = _started_for(model, observed, fitting)
            route = made.make(model, facts, claims[model.id].kept, started)
            engines = _marked(fitting, _made_before(specs.get(model.id), observed.engines_of(model.id)))
        elif known is not None:
            route, engines = _kept(known, claims[model.id]), _marked(engines, _outdated(model, observed))
        elif facts is None and model.id in observed.routed:
            route, engines = observed.routed[model.id][0], _marked(engines, _outdated(model, observed))
        else:
            continue
        routes[model.id] = (made.with_scaling(route, model), engines)
    made.keep_only(routes.keys())
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
    current_hash = _current_hash(model, facts)
    other = {engine.engine.grpc for engine in started if engine.engine.spec_hash != current_hash}
    return tuple(engine for engine in engines if engine.grpc not in other)


def _made_before(current: str | None, engines: Iterable[ObservedEngine]) -> Set[EngineAddress]:
    """Return where engines are that were made from something else than has this hash; none where it is not known."""
    return {one.engine.grpc for one in engines if current is not None and one.engine.spec_hash != current}


def _outdated(model: DesiredModel, observed: Observed) -> Set[EngineAddress]:
    """Return where those engines are that the registry calls outdated: they are so for a route that stays as it is."""
    return {engine.grpc for engine in observed.held_engines.get(model.id, ()) if engine.outdated}


def _marked(engines: tuple[Engine, ...], outdated: Set[EngineAddress]) -> tuple[Engine, ...]:
    return tuple(one.model_copy(update={"outdated": True}) if one.grpc in outdated else one for one in engines)


def _current_hash(model: DesiredModel, facts: SourceFacts) -> str | None:
    recipe = engine_recipe(model, facts)
    return None if recipe is None else spec_hash(recipe)


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


def _started_for(model: DesiredModel, observed: Observed, engines: tuple[Engine, ...]) -> list[int | None]:
    """Return for which lengths those were started that serve: the shortest counts, while some are of an older spec."""
    routed = {engine.grpc for engine in engines}
    return [
        engine.engine.contract.max_length for engine in observed.engines_of(model.id) if engine.engine.grpc in routed
    ]


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
        if engine.engine.phase in (EnginePhase.INITIALIZED, EnginePhase.RUNNING, EnginePhase.LEAVING)
        and _may_serve(engine.probe, engine.engine.grpc in before)
        and engine.name not in leaving
    )


def _may_serve(probe: Probe, served_before: bool) -> bool:
    """Return whether requests may go to an engine: it answered, or it was in use and has not been asked yet."""
    return probe.verdict is ProbeVerdict.READY or (probe.verdict is ProbeVerdict.PENDING and served_before)
