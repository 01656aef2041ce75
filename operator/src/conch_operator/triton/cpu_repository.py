"""Renders the Triton model repository of a cpu engine, as text; nothing is written here.

Whoever runs the engine writes the files: the local cluster into its state folder, Kubernetes through a ConfigMap. The
tensors are those of `conch_contracts.dialects`. No queue policy is rendered: admission is the gateway's, and Triton's
own policies stall. Models of language and of speech are decoupled, so `execute` never blocks and the engine batches
by itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conch_contracts import cpu_runtime
from conch_contracts.dialects import encoder, speech, tokens
from conch_contracts.records import Dialect
from conch_operator.triton.config_pbtxt import document, parameter_lines, tensor, text

DEFAULT_KV_CACHE_BYTES = 4 * 1024**3

_INPUTS = ((tokens.INPUT_IDS, "TYPE_INT32", "-1"), (tokens.PARAMETERS, "TYPE_STRING", "1"))
_PICTURE_INPUTS = (
    (tokens.IMAGE_PIXELS, "TYPE_UINT8", "-1"),
    (tokens.IMAGE_SHAPES, "TYPE_INT32", "-1, 3"),
    (tokens.IMAGE_SPANS, "TYPE_INT32", "-1, 2"),
    (tokens.IMAGE_HASHES, "TYPE_STRING", "-1"),
)
_OUTPUTS = (
    (tokens.TOKEN_IDS, "TYPE_INT32", "-1"),
    (tokens.LOGPROBS, "TYPE_FP32", "-1"),
    (tokens.TOP_IDS, "TYPE_INT32", "-1, -1"),
    (tokens.TOP_LOGPROBS, "TYPE_FP32", "-1, -1"),
    (tokens.PROMPT_LOGPROBS, "TYPE_FP32", "-1"),
    (tokens.PROMPT_RANKS, "TYPE_INT32", "-1"),
    (tokens.PROMPT_TOP_IDS, "TYPE_INT32", "-1, -1"),
    (tokens.PROMPT_TOP_LOGPROBS, "TYPE_FP32", "-1, -1"),
    (tokens.FINISH_REASON, "TYPE_STRING", "1"),
    (tokens.STOP_TOKEN_ID, "TYPE_INT32", "1"),
)
_SPEECH_INPUTS = (
    (speech.PCM, "TYPE_INT16", "-1"),
    (speech.PROMPT_IDS, "TYPE_INT32", "-1"),
    (speech.PARAMETERS, "TYPE_STRING", "1"),
)
_SPEECH_OUTPUTS = (
    (speech.LANGUAGE_ID, "TYPE_INT32", "1"),
    (speech.NO_SPEECH_PROB, "TYPE_FP32", "1"),
    (speech.TOKEN_IDS, "TYPE_INT32", "-1"),
    (speech.LOGPROBS, "TYPE_FP32", "-1"),
    (speech.AVG_LOGPROB, "TYPE_FP32", "1"),
    (speech.TEMPERATURE, "TYPE_FP32", "1"),
    (speech.TOKEN_TIMES, "TYPE_FP32", "-1"),
    (speech.FINISH_REASON, "TYPE_STRING", "1"),
)
_MODEL_PY = '''"""The cpu runtime; everything is in its package."""

from conch_runtime_cpu.triton_model import TritonPythonModel

__all__ = ["TritonPythonModel"]
'''
_ENCODER_PY = _MODEL_PY.replace("triton_model", "triton_encoder")
_SPEECH_PY = _MODEL_PY.replace("triton_model", "triton_speech")
_ENCODER_DIMS = {
    encoder.LAST_HIDDEN_STATE: "-1, -1",
    encoder.LOGITS: "-1",
    encoder.TEXT_EMBEDS: "-1",
    encoder.IMAGE_EMBEDS: "-1",
}


@dataclass(frozen=True, slots=True)
class CpuModel:
    """What one cpu engine serves, and how."""

    name: str
    """The model's name inside Triton."""
    model_folder: str
    cache_folder: str
    quantization: str = "none"
    max_batch_size: int = 16
    tokens_per_second: int = 0
    kv_cache_bytes: int = DEFAULT_KV_CACHE_BYTES
    max_length: int | None = None
    """The most tokens of a sequence, prompt and answer; None for what the model was made for."""
    output: str | None = None
    """What an encoder gives, see `conch_contracts.dialects.encoder`; None for every other model."""
    dialect: Dialect = Dialect.TOKENS
    """With which it is spoken to, where it is no encoder: `tokens` or `speech`."""
    sees: bool = False
    """Whether it takes pictures, or may do so: then it has inputs for them. An embedding model that does has two
    outputs more, of which each kind of model gives its own."""
    feature_cache_bytes: int = cpu_runtime.DEFAULT_FEATURE_CACHE_BYTES
    """Of one that does: how much of the pictures that it has seen is kept."""


def render_cpu_repository(model: CpuModel) -> dict[str, str]:
    """Return the repository's files: path relative to the repository, and content."""
    if model.output is not None:
        make = seeing_encoder_config if model.sees else encoder_config
        config = make(model.name, model.output, _encoder_parameters(model), batch=model.max_batch_size)
        return {f"{model.name}/config.pbtxt": config, f"{model.name}/1/model.py": _ENCODER_PY}
    if model.dialect is Dialect.SPEECH:
        config = speech_config(model.name, _parameters(model))
        return {f"{model.name}/config.pbtxt": config, f"{model.name}/1/model.py": _SPEECH_PY}
    config = (seeing_config if model.sees else tokens_config)(model.name, _parameters(model))
    return {f"{model.name}/config.pbtxt": config, f"{model.name}/1/model.py": _MODEL_PY}


def tokens_config(name: str, parameters: Mapping[str, str], *, instances: int = 1, batch: int = 0) -> str:
    """Return the config.pbtxt of a Python model that speaks the `tokens` dialect."""
    inputs = [tensor("input", *row) for row in _INPUTS]
    return _decoupled_config(name, inputs, _OUTPUTS, parameters, instances=instances, batch=batch)


def seeing_config(name: str, parameters: Mapping[str, str]) -> str:
    """Return the config.pbtxt of a Python model that speaks the `tokens` dialect and takes pictures."""
    inputs = [tensor("input", *row) for row in _INPUTS]
    inputs += [tensor("input", *row, "optional") for row in _PICTURE_INPUTS]
    return _decoupled_config(name, inputs, _OUTPUTS, parameters, instances=1, batch=0)


def speech_config(name: str, parameters: Mapping[str, str], *, instances: int = 1, batch: int = 0) -> str:
    """Return the config.pbtxt of a Python model that speaks the `speech` dialect."""
    inputs = [tensor("input", *row) for row in _SPEECH_INPUTS]
    return _decoupled_config(name, inputs, _SPEECH_OUTPUTS, parameters, instances=instances, batch=batch)


def _decoupled_config(
    name: str,
    inputs: Iterable[str],
    outputs: Iterable[tuple[str, str, str]],
    parameters: Mapping[str, str],
    *,
    instances: int,
    batch: int,
) -> str:
    return document(
        [
            *_python_model(name, batch),
            "model_transaction_policy { decoupled: true }",
            *inputs,
            *(tensor("output", *row) for row in outputs),
            *_instances_and_parameters(instances, parameters),
        ]
    )


def encoder_config(name: str, output: str, parameters: Mapping[str, str], *, instances: int = 1, batch: int = 0) -> str:
    """Return the config.pbtxt of a Python model that speaks the `encoder` dialect.

    There is no dynamic batching: the worker sends whole batches, and waiting for more would only hold them up.
    """
    batched = "" if batch else "-1, "
    inputs = [tensor("input", logical, "TYPE_INT64", f"{batched}-1") for logical in encoder.INPUTS[:2]]
    inputs.append(tensor("input", encoder.TOKEN_TYPE_IDS, "TYPE_INT64", f"{batched}-1", "optional"))
    return _encoder_config(name, inputs, (output,), parameters, instances, batch)


def seeing_encoder_config(
    name: str, output: str, parameters: Mapping[str, str], *, instances: int = 1, batch: int = 0
) -> str:
    """Return the config.pbtxt of a Python model that speaks the `encoder` dialect and may take pictures.

    A request has either ids or pictures, or ids with pictures among them, so each input is optional.
    """
    batched = "" if batch else "-1, "
    inputs = [tensor("input", logical, "TYPE_INT64", f"{batched}-1", "optional") for logical in encoder.INPUTS]
    inputs.append(tensor("input", encoder.PIXEL_VALUES, "TYPE_FP32", f"{batched}3, -1, -1", "optional"))
    inputs += [tensor("input", name, kind, f"{batched}{dims}", "optional") for name, kind, dims in _PICTURE_INPUTS]
    outputs = (output, encoder.TEXT_EMBEDS, encoder.IMAGE_EMBEDS)
    return _encoder_config(name, inputs, outputs, parameters, instances, batch)


def _encoder_config(
    name: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    parameters: Mapping[str, str],
    instances: int,
    batch: int,
) -> str:
    batched = "" if batch else "-1, "
    return document(
        [
            *_python_model(name, batch),
            *inputs,
            *(tensor("output", output, "TYPE_FP32", batched + _ENCODER_DIMS[output]) for output in outputs),
            *_instances_and_parameters(instances, parameters),
        ]
    )


def _parameters(model: CpuModel) -> Mapping[str, str]:
    of_pictures = {cpu_runtime.FEATURE_CACHE_BYTES: str(model.feature_cache_bytes)} if model.sees else {}
    return {
        cpu_runtime.MODEL_FOLDER: model.model_folder,
        cpu_runtime.CACHE_FOLDER: model.cache_folder,
        cpu_runtime.QUANTIZATION: model.quantization,
        cpu_runtime.MAX_BATCH_SIZE: str(model.max_batch_size),
        cpu_runtime.TOKENS_PER_SECOND: str(model.tokens_per_second),
        cpu_runtime.KV_CACHE_BYTES: str(model.kv_cache_bytes),
        cpu_runtime.MAX_LENGTH: str(model.max_length or 0),
        **of_pictures,
    }


def _encoder_parameters(model: CpuModel) -> Mapping[str, str]:
    return {
        cpu_runtime.MODEL_FOLDER: model.model_folder,
        cpu_runtime.CACHE_FOLDER: model.cache_folder,
        cpu_runtime.OUTPUT: str(model.output),
    }


def _python_model(name: str, batch: int) -> Iterable[str]:
    return f"name: {text(name)}", 'backend: "python"', f"max_batch_size: {batch}"


def _instances_and_parameters(instances: int, parameters: Mapping[str, str]) -> Iterable[str]:
    yield f"instance_group [ {{ count: {instances} kind: KIND_CPU }} ]"
    yield from parameter_lines(parameters)
