"""FasterTransformer inside Triton, with the tensors of its backend's GPT configuration.

The names, types and parameters are those of triton-inference-server/fastertransformer_backend (all_models/gpt and
docs/gpt_guide.md). Responses stream, so the model is decoupled; requests are batched by Triton without a delay.
"""

from conch_contracts.spec.runtimes import FasterTransformerEngineSpec
from conch_operator.resources.runtimes.runtime_server import RuntimeServer
from conch_operator.routes.engine_contract import contract_of
from conch_operator.state import DesiredModel
from conch_operator.triton.config_pbtxt import document, parameter_lines, tensor, text

_OPTIONAL_NUMBERS = (
    *((name, "TYPE_UINT32") for name in ("start_id", "end_id", "runtime_top_k", "beam_width")),
    *(
        (name, "TYPE_FP32")
        for name in ("runtime_top_p", "beam_search_diversity_rate", "temperature", "len_penalty", "repetition_penalty")
    ),
    ("random_seed", "TYPE_UINT64"),
    ("is_return_log_probs", "TYPE_BOOL"),
)
_WORD_LISTS = ("bad_words_list", "stop_words_list")
_OUTPUTS = (
    ("output_ids", "TYPE_UINT32", "-1, -1"),
    ("sequence_length", "TYPE_UINT32", "-1"),
    ("cum_log_probs", "TYPE_FP32", "-1"),
    ("output_log_probs", "TYPE_FP32", "-1, -1"),
)


def make_server(model: DesiredModel, spec: FasterTransformerEngineSpec, folder: str) -> RuntimeServer:
    """Return the server of a model that FasterTransformer runs."""
    contract = contract_of(model)
    options = {"disable-auto-complete-config": None}
    return RuntimeServer(contract, {f"{contract.triton_model}/config.pbtxt": _config(spec, folder)}, options)


def _config(spec: FasterTransformerEngineSpec, folder: str) -> str:
    single = "reshape: { shape: [ ] }"
    chosen = {
        "tensor_para_size": str(spec.tensor_parallel_size),
        "pipeline_para_size": str(spec.pipeline_parallel_size),
        "data_type": str(spec.data_type),
        "model_type": spec.model_type,
        "model_checkpoint_path": f"{folder}/{spec.checkpoint}" if spec.checkpoint else folder,
        "enable_custom_all_reduce": "0",
    }
    return document(
        [
            f"name: {text(spec.model_name)}",
            'backend: "fastertransformer"',
            f"default_model_filename: {text(spec.model_name)}",
            f"max_batch_size: {spec.max_batch_size}",
            "model_transaction_policy { decoupled: true }",
            "dynamic_batching { }",
            tensor("input", "input_ids", "TYPE_UINT32", "-1", "allow_ragged_batch"),
            _scalar("input_lengths", "TYPE_UINT32", single),
            tensor("input", "request_output_len", "TYPE_UINT32", "-1"),
            *(_scalar(name, data_type, f"{single} optional: true") for name, data_type in _OPTIONAL_NUMBERS),
            *(tensor("input", name, "TYPE_INT32", "2, -1", "optional") for name in _WORD_LISTS),
            *(tensor("output", *output) for output in _OUTPUTS),
            "instance_group [ { count: 1 kind: KIND_CPU } ]",  # the backend itself takes the GPUs
            *parameter_lines(chosen),
        ]
    )


def _scalar(name: str, data_type: str, rest: str) -> str:
    return f"input [ {{ name: {text(name)} data_type: {data_type} dims: [ 1 ] {rest} }} ]"
