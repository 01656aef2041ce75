"""TensorRT-LLM inside Triton: the `tensorrt_llm` model of its backend with in-flight batching, and nothing around it.

Tensors and parameters are those of triton_backend/all_models/inflight_batcher_llm/tensorrt_llm/config.pbtxt. Prompts
come as ids and answers leave as ids, so the preprocessing, postprocessing and ensemble models are not needed. An engine
that is split over GPUs is one server for each of them, started by mpirun as in the backend's launch_triton_server.py.
"""

from conch_contracts.spec.runtimes import TensorRtLlmEngineSpec
from conch_operator.resources.runtimes.runtime_server import RuntimeServer
from conch_operator.routes.engine_contract import contract_of
from conch_operator.state import DesiredModel
from conch_operator.triton.config_pbtxt import document, parameter_lines, tensor, text

_SCALARS = {
    "TYPE_INT32": ("end_id", "pad_id", "beam_width", "min_tokens", "runtime_top_k", "num_return_sequences"),
    "TYPE_FP32": (
        "temperature",
        "runtime_top_p",
        "runtime_top_p_min",
        "len_penalty",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
    ),
    "TYPE_UINT64": ("seed",),
    "TYPE_BOOL": ("streaming", "stop", "return_log_probs", "exclude_input_in_output"),
}
_WORD_LISTS = ("bad_words_list", "stop_words_list")
_OUTPUTS = (
    ("output_ids", "TYPE_INT32", "-1, -1"),
    ("sequence_length", "TYPE_INT32", "-1"),
    ("cum_log_probs", "TYPE_FP32", "-1"),
    ("output_log_probs", "TYPE_FP32", "-1, -1"),
)


def make_server(model: DesiredModel, spec: TensorRtLlmEngineSpec, folder: str) -> RuntimeServer:
    """Return the server of a model that TensorRT-LLM runs, all of it in one pod."""
    contract = contract_of(model)
    return RuntimeServer(
        contract,
        {f"{spec.model_name}/config.pbtxt": _config(spec, folder), f"{spec.model_name}/1/.keep": ""},
        {"disable-auto-complete-config": None},
        ranks=spec.gpus_per_pod,
    )


def _config(spec: TensorRtLlmEngineSpec, folder: str) -> str:
    fraction = spec.kv_cache_free_gpu_memory_fraction
    chosen = {
        "gpt_model_type": "inflight_fused_batching",
        "gpt_model_path": folder,
        "batch_scheduler_policy": "max_utilization",
        "enable_kv_cache_reuse": str(spec.enable_kv_cache_reuse).lower(),
        "exclude_input_in_output": "true",
        "cancellation_check_period_ms": "100",
        "executor_worker_path": "/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker",
        **({} if fraction is None else {"kv_cache_free_gpu_mem_fraction": str(fraction)}),
    }
    return document(
        [
            f"name: {text(spec.model_name)}",
            'backend: "tensorrtllm"',
            f"max_batch_size: {spec.max_batch_size}",
            "model_transaction_policy { decoupled: true }",
            tensor("input", "input_ids", "TYPE_INT32", "-1", "allow_ragged_batch"),
            _scalar("input_lengths", "TYPE_INT32", optional=False),
            _scalar("request_output_len", "TYPE_INT32", optional=False),
            *(_scalar(name, kind, optional=True) for kind, names in _SCALARS.items() for name in names),
            *(tensor("input", name, "TYPE_INT32", "2, -1", "optional", "allow_ragged_batch") for name in _WORD_LISTS),
            *(tensor("output", *output) for output in _OUTPUTS),
            "instance_group [ { count: 1 kind: KIND_CPU } ]",  # the executor itself takes the GPUs
            *parameter_lines(chosen),
        ]
    )


def _scalar(name: str, data_type: str, *, optional: bool) -> str:
    rest = " optional: true" if optional else ""
    shape = f"data_type: {data_type} dims: [ 1 ] reshape: {{ shape: [ ] }}{rest}"
    return f"input [ {{ name: {text(name)} {shape} }} ]"
