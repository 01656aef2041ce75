"""Builders of ModelDeployments and of what an operator observes about them."""

from pathlib import Path
from typing import Any

from conch_contracts.conditions import Reason
from conch_contracts.modeldeployment import ModelDeployment, parse
from conch_contracts.names import Digest, EngineAddress
from conch_operator.reconcile.engine_steps import engine_name, engine_recipe, spec_hash
from conch_operator.routes.engine_contract import contract_of
from conch_operator.state import (
    ClusterEngine,
    DesiredModel,
    EnginePhase,
    GenerationFacts,
    ObservedEngine,
    Probe,
    ProbeVerdict,
    SourceFacts,
)

FACTS = SourceFacts(
    folder=Path("/models/tiny"),
    digest=Digest("d" * 64),
    weights="w",
    vocab_size=100,
    max_position_embeddings=1024,
    generation=GenerationFacts(eos_token_ids=(7,)),
    chat_template=None,
)
READY = Probe(ProbeVerdict.READY, Reason.READY)


def model_deployment(name: str = "tiny", **spec: Any) -> ModelDeployment:
    """Return a ModelDeployment with these fields of its spec changed."""
    return parse(
        {
            "apiVersion": "conch.dev/v1alpha1",
            "kind": "ModelDeployment",
            "metadata": {"name": name},
            "spec": {"kind": "LLM", "source": {"path": "tiny"}, "engine": {"cpu": {}}} | spec,
        }
    )


def desired_model(name: str = "tiny", created: int = 1, **spec: Any) -> DesiredModel:
    """Return a wanted model."""
    return DesiredModel(model_deployment(name, **spec), Path("/models"), created)


def engine(
    model: DesiredModel,
    index: int = 0,
    *,
    phase: EnginePhase = EnginePhase.RUNNING,
    probe: Probe = READY,
    withdrawn: bool = False,
    detail: str = "",
) -> ObservedEngine:
    """Return an engine that was made from this model's spec; ready unless told otherwise."""
    recipe = engine_recipe(model, FACTS)
    assert recipe is not None
    name = engine_name(model, spec_hash(recipe), index)
    address = EngineAddress(f"127.0.0.1:{9000 + index}")
    contract = contract_of(model)
    cluster_engine = ClusterEngine(name, model.id, spec_hash(recipe), contract, phase, address, 1, detail)
    return ObservedEngine(cluster_engine, probe, withdrawn)
