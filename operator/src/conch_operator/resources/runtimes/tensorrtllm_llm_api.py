"""TensorRT-LLM's LLM API inside Triton: the model `llmapi` of its Triton backend, on a Hugging Face folder.

The model's code and its config come with the image, so that they fit the TensorRT-LLM in it; only `model.yaml` is
ours. Its keys are the arguments of `tensorrt_llm.LLM`, but for `triton_config`, which makes the model stream. One
server holds all GPUs of the engine: the LLM API starts its own processes for them.
"""

import json

from conch_contracts.spec.runtimes import TensorRtLlmEngineSpec
from conch_operator.resources.runtimes.runtime_server import RuntimeServer
from conch_operator.routes.engine_contract import contract_of
from conch_operator.state import DesiredModel

IMAGE_FOLDER = "/app/all_models/llmapi/tensorrt_llm"
_ENVIRONMENT = {
    # The folder is there already; nothing may be fetched, and nothing reported.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRTLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # PyTorch asks for the user's name when it is imported, and the pod's user has none in the image's /etc/passwd.
    "USER": "conch",
}


def make_server(model: DesiredModel, spec: TensorRtLlmEngineSpec, folder: str) -> RuntimeServer:
    """Return the server of a model that TensorRT-LLM's LLM API runs."""
    contract = contract_of(model)
    settings = json.dumps(_settings(spec, folder), indent=2) + "\n"  # JSON is YAML, too
    files = {f"{contract.triton_model}/1/model.yaml": settings}
    return RuntimeServer(contract, files, env=_ENVIRONMENT, image_folder=IMAGE_FOLDER)


def _settings(spec: TensorRtLlmEngineSpec, folder: str) -> dict[str, object]:
    fraction = spec.kv_cache_free_gpu_memory_fraction
    cache: dict[str, object] = {"enable_block_reuse": spec.enable_kv_cache_reuse}
    return {
        "model": folder,
        "backend": str(spec.backend),
        "tensor_parallel_size": spec.tensor_parallel_size,
        "pipeline_parallel_size": spec.pipeline_parallel_size,
        "max_batch_size": spec.max_batch_size,
        **({} if spec.max_model_len is None else {"max_seq_len": spec.max_model_len}),
        "kv_cache_config": cache | ({} if fraction is None else {"free_gpu_memory_fraction": float(fraction)}),
        "trust_remote_code": False,
        "triton_config": {"max_batch_size": 0, "decoupled": True, "cancellation_check_period_ms": 100},
    }
