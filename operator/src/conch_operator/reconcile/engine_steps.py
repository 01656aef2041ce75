"""Pure: which engines of one model are to be started and ended, on a cluster that is told of each.

Replacing an engine takes several rounds: start one of the new spec beside the old ones, and when it answers, withdraw
an old one from the route; once no gateway uses it any more, stop it. Changes are found by a hash of the spec.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache

from conch_contracts.conditions import Reason
from conch_contracts.names import LOCAL_NAMESPACE, Digest, EngineAddress, ModelId
from conch_contracts.records import ModelKind
from conch_operator.routes.encoder_profile import encodes_pictures, sees_among_texts
from conch_operator.routes.engine_contract import contract_of, encoder_output
from conch_operator.state import (
    Desired,
    DesiredModel,
    EngineComponent,
    EngineName,
    EnginePhase,
    EngineRecipe,
    Observed,
    ObservedEngine,
    ProbeVerdict,
    SourceFacts,
    SourceFault,
)

_BEFORE_A_LOAD = (Reason.ENGINE_STARTING, Reason.ENGINE_UNREACHABLE, Reason.ENGINE_LOAD_FAILED)
"""What a probe says of a server that has not loaded its model."""
_OF_AN_ENGINE = (Reason.FOLDER_MISSING, Reason.FILES_MISSING, Reason.FILES_INVALID)
"""What may be wrong with the files that an engine loads."""
SURGE = 1
"""Engines beyond the wanted number while a spec is being replaced."""


@dataclass(frozen=True, slots=True)
class EngineSteps:
    """What is to be done about the engines of one model."""

    start: tuple[EngineComponent, ...] = ()
    restart: tuple[ObservedEngine, ...] = ()
    remove: tuple[ObservedEngine, ...] = ()
    why: tuple[str, ...] = ()


def engine_steps(model: DesiredModel, observed: Observed) -> EngineSteps:
    """Return the next safe steps; while the model's folder cannot be served, none is started."""
    present = observed.engines_of(model.id)
    facts = observed.sources.get(model.id)
    if not isinstance(facts, SourceFacts):
        return _without_folder(model, facts, present)
    recipe = engine_recipe(model, facts)
    wanted = 0 if recipe is None else model.replicas
    current_hash = "" if recipe is None else spec_hash(recipe)
    staying = [engine for engine in present if engine.stays]
    current = [engine for engine in staying if engine.engine.spec_hash == current_hash]
    old = [engine for engine in staying if engine.engine.spec_hash != current_hash]
    successors = [] if observed.lacks_tokenizer(model.id, facts) else current
    taken = {} if model.scaled is None else model.scaled.taken
    remove = (*_surplus(current, wanted, taken), *_replaceable(old, successors, wanted))
    restart = tuple(engine for engine in current if is_dead(engine) and engine not in remove)
    room = wanted + SURGE - len(staying) if old else wanted
    lacks = 0 if model.drains else min(wanted - len(current), room)
    start = _missing(model, recipe, facts.digest, present, lacks) if recipe else ()
    return EngineSteps(start, restart, remove, _why(start, restart, remove, old))


def _without_folder(model: DesiredModel, fault: SourceFault | None, present: Sequence[ObservedEngine]) -> EngineSteps:
    """Return what goes; what serves goes on serving.

    Where the folder is looked at in each round, so does a server that is about to load it: it would fail, and never try
    again, and the next one loads the folder as soon as it is back. A pool sees to that itself.
    """
    staying = tuple(one for one in present if one.stays)
    if model.replicas == 0:
        return EngineSteps(remove=staying, why=_why((), (), staying, ()))
    if fault is None or not fault.is_of_now or fault.reason not in _OF_AN_ENGINE:
        return EngineSteps()
    vain = tuple(
        one
        for one in staying
        if one.engine.folder == fault.folder and not one.ready and one.probe.reason in _BEFORE_A_LOAD
    )
    return EngineSteps(remove=vain, why=tuple(f"{one.name}: its model's folder cannot be served" for one in vain))


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
    """Return the name of one engine of a model, which is that of no other, whatever its namespace or pool.

    In a pool it begins with that, since the agent of a pool is believed about such names alone.
    """
    pool, name = model.deployment.pool_id, f"{model.deployment.metadata.name}-{current_hash}-{index}"
    if pool is not None:
        return EngineName(f"{pool}/{name}")
    return EngineName(name if model.namespace == LOCAL_NAMESPACE else f"{model.namespace}.{name}")


def leftover_steps(served: set[ModelId], observed: Observed) -> EngineSteps:
    """Return how engines go whose models are not served any more."""
    left = tuple(
        engine
        for engine in observed.engines
        if engine.engine.model not in served and engine.engine.phase is not EnginePhase.STOPPING
    )
    return EngineSteps(remove=left, why=tuple(f"{engine.name}: its model is no longer wanted" for engine in left))


def pooled_steps(placed: Sequence[DesiredModel], desired: Desired, observed: Observed) -> tuple[EngineSteps, ...]:
    """Return the steps for models in pools, on a cluster that makes all other engines by itself.

    A model that has left its pool goes on being served there until an engine of its own answers.
    """
    here = {model.id for model in placed}
    others = {model.id for model in desired.models if model.deployment.spec.placement is None}
    serve = {engine.engine.model for engine in observed.engines if engine.engine.pool is None and engine.ready}
    left = tuple(
        engine
        for engine in observed.engines
        if engine.engine.pool is not None
        and engine.stays
        and engine.engine.model not in here
        and engine.engine.model not in desired.unreadable
        and (engine.engine.model not in others or engine.engine.model in serve or not engine.ready)
    )
    why = tuple(f"{engine.name}: its model has left the pool" for engine in left)
    return (*(engine_steps(model, observed) for model in placed), EngineSteps(remove=left, why=why))


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


@lru_cache(maxsize=4096)  # each round asks for those of all models, several times
def spec_hash(recipe: EngineRecipe) -> str:
    """Return a short name for what an engine is made from; equal recipes have equal ones."""
    return hashlib.sha256(repr(astuple(recipe)).encode()).hexdigest()[:10]


def is_dead(engine: ObservedEngine) -> bool:
    """Return whether to start an engine again."""
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
