"""vLLM inside Triton: `model.json` holds vLLM's engine arguments, Triton's backend declares the tensors by itself.

The layout is that of triton-inference-server/vllm_backend (samples/model_repository); one server holds all GPUs of the
engine, since vLLM starts its own processes for them.
"""

import json

from conch_contracts.spec.runtimes import VllmEngineSpec
from conch_operator.resources.compile_cache import COMPILED
from conch_operator.resources.runtimes.runtime_server import RuntimeServer
from conch_operator.routes.engine_contract import contract_of
from conch_operator.state import DesiredModel
from conch_operator.triton.config_pbtxt import document, text

_ENVIRONMENT = {
    # The folder is there already; nothing may be fetched, and nothing reported.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CACHE_ROOT": COMPILED,
    # PyTorch asks for the user's name when it is imported, and the pod's user has none in the image's /etc/passwd.
    "USER": "conch",
}


def make_server(model: DesiredModel, spec: VllmEngineSpec, folder: str) -> RuntimeServer:
    """Return the server of a model that vLLM runs."""
    contract = contract_of(model)
    name = contract.triton_model
    lines = [f"name: {text(name)}", 'backend: "vllm"', "instance_group [ { count: 1 kind: KIND_MODEL } ]"]
    repository = {
        f"{name}/config.pbtxt": document(lines),
        f"{name}/1/model.json": json.dumps(_engine_arguments(spec, folder), indent=2) + "\n",
    }
    return RuntimeServer(contract, repository, env=_ENVIRONMENT)


def _engine_arguments(spec: VllmEngineSpec, folder: str) -> dict[str, object]:
    chosen: dict[str, object | None] = {
        "model": folder,
        "tokenizer": folder,
        "dtype": str(spec.dtype),
        "tensor_parallel_size": spec.tensor_parallel_size,
        "pipeline_parallel_size": spec.pipeline_parallel_size,
        "max_model_len": spec.max_model_len,
        "max_num_seqs": spec.max_num_seqs,
        "gpu_memory_utilization": None if spec.gpu_memory_utilization is None else float(spec.gpu_memory_utilization),
        "trust_remote_code": False,
    }
    return {name: value for name, value in chosen.items() if value is not None}
