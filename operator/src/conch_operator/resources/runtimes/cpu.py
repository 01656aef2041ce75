"""The cpu runtime: our own Python backend model, which serves the Hugging Face folder of any kind of model."""

from conch_contracts.records import ModelKind
from conch_contracts.spec.runtimes import CpuEngineSpec
from conch_operator.resources.runtimes.runtime_server import RuntimeServer
from conch_operator.routes.engine_contract import contract_of, encoder_output
from conch_operator.state import DesiredModel
from conch_operator.triton.cpu_repository import CpuModel, render_cpu_repository

CACHE = "/tmp/conch-cache"


def make_server(model: DesiredModel, spec: CpuEngineSpec, folder: str) -> RuntimeServer:
    """Return the server of a model that runs on CPU."""
    contract = contract_of(model)
    repository = CpuModel(
        name=contract.triton_model,
        model_folder=folder,
        cache_folder=CACHE,
        quantization=spec.quantization,
        max_batch_size=spec.max_batch_size,
        tokens_per_second=spec.tokens_per_second,
        max_length=model.deployment.spec.generation.max_length,
        output=encoder_output(model.deployment.spec.kind),
        dialect=contract.dialect,
        # The folder is read in the engine's pod, when this is written already: every model of these kinds may see.
        sees=model.deployment.spec.kind in (ModelKind.LLM, ModelKind.EMBEDDING),
    )
    options = {"disable-auto-complete-config": None, "grpc-infer-allocation-pool-size": 64}
    return RuntimeServer(contract, render_cpu_repository(repository), options)
