"""Pure: what to do so that what is there becomes what is wanted.

A plan is made anew from each observation, so it holds only steps that are safe now. Replacing an engine takes several
rounds: start one of the new spec beside the old ones, and when it answers, withdraw an old one from the route; once no
gateway uses it any more, stop it. Changes are found by a hash of the spec, not by comparing fields.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field

from conch_contracts.names import ModelId, ServedName
from conch_contracts.records import Engine, ModelKind, Route
from conch_operator.routes import claim_names, cpu_engine, external_engine, make_route, triton_model
from conch_operator.state import (
    Desired,
    DesiredModel,
    EngineComponent,
    EngineName,
    EnginePhase,
    EngineSpec,
    Observed,
    ObservedEngine,
    ProbeVerdict,
    SourceFacts,
)

SURGE = 1
"""Engines beyond the wanted number while a spec is being replaced."""

RoutedModel = tuple[Route, tuple[Engine, ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps to take, and the complete list of routes to publish."""

    start: tuple[EngineComponent, ...] = ()
    restart: tuple[EngineName, ...] = ()
    stop: tuple[EngineName, ...] = ()
    withdraw: tuple[EngineName, ...] = ()
    """Engines that are left out of their route and stop once every gateway has seen it."""
    routes: dict[ModelId, RoutedModel] = field(default_factory=dict)
    why: tuple[str, ...] = ()
    """One sentence per step, logged before acting."""


@dataclass(frozen=True, slots=True)
class _ModelPlan:
    start: tuple[EngineComponent, ...] = ()
    restart: tuple[ObservedEngine, ...] = ()
    remove: tuple[ObservedEngine, ...] = ()
    why: tuple[str, ...] = ()


def plan(desired: Desired, observed: Observed) -> Plan:
    """Return the next safe steps."""
    claims = claim_names(desired.models)
    served = [model for model in desired.models if is_served(model) and claims[model.id].kept]
    steps = [_plan_engines(model, observed) for model in served]
    steps.append(_plan_leftovers({model.id for model in served}, observed))
    remove = [engine for step in steps for engine in step.remove]
    leaving = frozenset(engine.name for engine in remove)
    return Plan(
        start=tuple(component for step in steps for component in step.start),
        restart=tuple(engine.name for step in steps for engine in step.restart),
        stop=tuple(engine.name for engine in remove if engine.withdrawn or not engine.ready),
        withdraw=tuple(engine.name for engine in remove if engine.ready and not engine.withdrawn),
        routes={
            model.id: (route, _routed_engines(model, observed, leaving))
            for model in served
            if (route := _route(model, observed, claims[model.id].kept)) is not None
        },
        why=tuple(reason for step in steps for reason in step.why),
    )


def is_served(model: DesiredModel) -> bool:
    """Return whether this version serves models of this kind."""
    return model.deployment.spec.kind is ModelKind.LLM


def engine_spec(model: DesiredModel, facts: SourceFacts) -> EngineSpec | None:
    """Return what the model's engines are made from; None when someone else runs them."""
    cpu = model.deployment.spec.engine.cpu
    if cpu is None:
        return None
    return EngineSpec(
        folder=facts.folder,
        weights=facts.weights,
        triton_model=triton_model(model),
        quantization=cpu.quantization,
        max_batch_size=cpu.max_batch_size,
        tokens_per_second=cpu.tokens_per_second,
    )


def spec_hash(spec: EngineSpec) -> str:
    """Return a short name for a spec; equal specs have equal ones."""
    return hashlib.sha256(repr(astuple(spec)).encode()).hexdigest()[:10]


def _plan_engines(model: DesiredModel, observed: Observed) -> _ModelPlan:
    present = observed.engines_of(model.id)
    facts = observed.sources.get(model.id)
    if not isinstance(facts, SourceFacts):
        return _ModelPlan()  # The folder cannot be read: what runs goes on running.
    spec = engine_spec(model, facts)
    wanted = 0 if spec is None else model.deployment.spec.replicas
    current_hash = "" if spec is None else spec_hash(spec)
    staying = [engine for engine in present if engine.engine.phase is not EnginePhase.STOPPING]
    current = [engine for engine in staying if engine.engine.component.spec_hash == current_hash]
    old = [engine for engine in staying if engine.engine.component.spec_hash != current_hash]
    remove = (*_surplus(current, wanted), *_replaceable(old, current, wanted))
    restart = tuple(engine for engine in current if _is_dead(engine) and engine not in remove)
    room = wanted + SURGE - len(staying) if old else wanted
    start = _missing(model, spec, present, min(wanted - len(current), room)) if spec else ()
    return _ModelPlan(start, restart, remove, _why(start, restart, remove, old))


def _surplus(current: Sequence[ObservedEngine], wanted: int) -> list[ObservedEngine]:
    """Return the engines beyond the wanted number, those that are not ready first."""
    by_worth = sorted(current, key=lambda engine: (not engine.ready, engine.name))
    return by_worth[wanted:]


def _replaceable(old: Sequence[ObservedEngine], current: Sequence[ObservedEngine], wanted: int) -> list[ObservedEngine]:
    """Return the engines of an older spec that can go without leaving fewer ready ones than wanted."""
    ready = [engine for engine in old if engine.ready]
    needed = max(0, wanted - sum(engine.ready for engine in current))
    return [engine for engine in old if not engine.ready] + ready[needed:]


def _missing(
    model: DesiredModel, spec: EngineSpec, present: Sequence[ObservedEngine], count: int
) -> tuple[EngineComponent, ...]:
    """Return so many engines to start, under names that nothing has."""
    taken = {engine.name for engine in present}
    current_hash = spec_hash(spec)
    names = (engine_name(model, current_hash, index) for index in range(len(taken) + max(0, count)))
    free = [name for name in names if name not in taken][: max(0, count)]
    return tuple(EngineComponent(name, model.id, current_hash, spec) for name in free)


def engine_name(model: DesiredModel, current_hash: str, index: int) -> EngineName:
    """Return the name of one engine of a model."""
    return EngineName(f"{model.deployment.metadata.name}-{current_hash}-{index}")


def _plan_leftovers(served: set[ModelId], observed: Observed) -> _ModelPlan:
    left = tuple(
        engine
        for engine in observed.engines
        if engine.engine.component.model not in served and engine.engine.phase is not EnginePhase.STOPPING
    )
    return _ModelPlan(remove=left, why=tuple(f"{engine.name}: its model is no longer wanted" for engine in left))


def _route(model: DesiredModel, observed: Observed, names: tuple[ServedName, ...]) -> Route | None:
    """Return a model's route; while its folder cannot be read, the one that it has."""
    facts = observed.sources.get(model.id)
    if isinstance(facts, SourceFacts):
        return make_route(model, facts, names)
    known = observed.routes.get(model.id)
    return None if known is None else known.model_copy(update={"served_names": names})


def _routed_engines(model: DesiredModel, observed: Observed, leaving: frozenset[EngineName]) -> tuple[Engine, ...]:
    external = model.deployment.spec.engine.external
    if external is not None:
        probe = observed.external.get(model.id)
        record = external_engine(external)
        return (record,) if record is not None and probe is not None and probe.verdict is ProbeVerdict.READY else ()
    return tuple(
        cpu_engine(engine.engine.grpc, engine.engine.http, engine.engine.component.spec.max_batch_size)
        for engine in observed.engines_of(model.id)
        if engine.ready and engine.name not in leaving
    )


def _is_dead(engine: ObservedEngine) -> bool:
    return engine.engine.phase is EnginePhase.RUNNING and engine.probe.verdict is ProbeVerdict.DEAD


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
