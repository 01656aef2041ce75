"""Pure: which engines are asked whether they answer, and how."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.names import EngineAddress, ModelId
from conch_kit.registry.snapshot import Snapshot
from conch_operator.probe.prober import Target
from conch_operator.routes.encoder_profile import tensor_inputs, tensor_output
from conch_operator.routes.engine_contract import contract_of
from conch_operator.routes.route import external_address, external_engine
from conch_operator.state import (
    ClusterEngine,
    Desired,
    EngineContract,
    EngineName,
    EnginePhase,
    SourceFacts,
    SourceFault,
)


def targets_of(
    specs: Mapping[ModelId, ModelSpec],
    prompts: Mapping[ModelId, tuple[int, ...]],
    engines: Sequence[ClusterEngine],
) -> dict[Hashable, Target]:
    """Return how engines of Conch are asked, by the specs of all models; `prompts` as from `prompts_of`."""
    targets: dict[Hashable, Target] = {}
    for engine in engines:
        if engine.phase in (EnginePhase.INITIALIZED, EnginePhase.RUNNING, EnginePhase.LEAVING):
            targets[key_of(engine)] = _target(
                engine.grpc,
                engine.contract,
                specs.get(engine.model),
                prompt_ids=prompts.get(engine.model, ()),
                engine=engine.name,
            )
    return targets


def external_targets(desired: Desired, prompts: Mapping[ModelId, tuple[int, ...]]) -> dict[Hashable, Target]:
    """Return how the engines of someone else are asked."""
    targets: dict[Hashable, Target] = {}
    for model in desired.models:
        external = model.deployment.spec.engine.external
        if external is not None:
            address, contract = external_address(external), contract_of(model)
            targets[model.id] = _target(
                address,
                contract,
                model.deployment.spec,
                named_in=model.namespace,
                prompt_ids=prompts.get(model.id, ()),
            )
    return targets


def prompts_of(
    sources: Mapping[ModelId, SourceFacts | SourceFault], snapshot: Snapshot
) -> Mapping[ModelId, tuple[int, ...]]:
    """Return what decoders of speech are given: what their folders say now, else what they said last."""
    known = {model: route.speech.prompt_ids for model, route in snapshot.routes.items()}
    return known | {model: said.speech.prompt_ids for model, said in sources.items() if isinstance(said, SourceFacts)}


@dataclass(frozen=True, slots=True)
class ReplacedEngine:
    """Names what is asked whether an engine still answers that a model's spec does not name any more."""

    model: ModelId
    address: EngineAddress


def replaced_targets(desired: Desired, snapshot: Snapshot) -> Mapping[ReplacedEngine, Target]:
    """Return what to ask of the engines of someone else that serve in place of those now named."""
    targets: dict[ReplacedEngine, Target] = {}
    for model in desired.models:
        external, route = model.deployment.spec.engine.external, snapshot.routes.get(model.id)
        if external is None or route is None:
            continue
        named = external_engine(model, external)
        for held in snapshot.engines.get(model.id, ()):
            if held != named and held.named_in is not None:
                target = Target(
                    held.grpc,
                    held.model or route.engine_model,
                    route.dialect,
                    tuple(route.encoder.inputs.items()),
                    route.encoder.output,
                    held.named_in,
                    route.speech.prompt_ids,
                )
                targets[ReplacedEngine(model.id, held.grpc)] = target
    return targets


def _target(
    address: EngineAddress,
    contract: EngineContract,
    spec: ModelSpec | None,
    *,
    prompt_ids: tuple[int, ...],
    named_in: str | None = None,
    engine: EngineName | None = None,
) -> Target:
    inputs = () if spec is None else tuple(tensor_inputs(spec).items())
    output = None if spec is None else tensor_output(spec)
    return Target(address, contract.triton_model, contract.dialect, inputs, output, named_in, prompt_ids, engine)


def key_of(engine: ClusterEngine) -> Hashable:
    """Return what stands for one incarnation of an engine."""
    return engine.name, engine.incarnation
