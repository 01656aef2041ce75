"""The `whisper_bls` dialect on the wire: whether a model's own config is that of one, and requests to it.

The operator's probe and the speech-worker share it. `declared_tensors` does the same for language models.
"""

from dataclasses import dataclass

from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig, ModelInput, ModelOutput
from tritonclient.grpc.service_pb2 import ModelInferRequest

from conch_contracts.dialects import whisper_bls as dialect
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.tensors import add_input, add_raw, new_request

_BYTES_OF_SAMPLE = 4


@dataclass(frozen=True, slots=True)
class WhisperTensors:
    """A model's config, as far as one must know it to ask the model."""

    decoupled: bool
    takes_length: bool
    """Whether it declares WAV_LENS."""


def read_whisper_tensors(config: ModelConfig) -> WhisperTensors:
    """Return what one must know of a model's config; raises MalformedResponse where it is another dialect's."""
    inputs, outputs = ({item.name: item for item in found} for found in (config.input, config.output))
    lacking = [*(set(dialect.NEEDED) - inputs.keys()), *(dialect.OUTPUTS.keys() - outputs.keys())]
    if lacking:
        raise _unlike(config, f"it has no {', '.join(sorted(lacking))}")
    for name, item in inputs.items():
        if name in dialect.INPUTS:
            _check(config, item, *dialect.INPUTS[name])
        elif not item.optional:
            raise _unlike(config, f"it needs the input {name}")
    for name in dialect.OUTPUTS:
        _check(config, outputs[name], *dialect.OUTPUTS[name])
    if config.max_batch_size < 1:
        raise _unlike(config, "its max_batch_size is 0, and it must have one")
    return WhisperTensors(config.model_transaction_policy.decoupled, dialect.WAV_LENS in inputs)


def whisper_request(
    model: str, request_id: str, tensors: WhisperTensors, prefix: bytes, wav: bytes
) -> ModelInferRequest:
    """Return the request for one window, whose samples are packed 32-bit floats."""
    request, samples = new_request(model, request_id), len(wav) // _BYTES_OF_SAMPLE
    add_input(request, dialect.TEXT_PREFIX, "BYTES", [1, 1], [prefix])
    add_raw(request, dialect.WAV, "FP32", [1, samples], wav)
    if tensors.takes_length:
        add_input(request, dialect.WAV_LENS, "INT32", [1, 1], [samples])
    return request


def _check(config: ModelConfig, item: ModelInput | ModelOutput, datatype: str, size: int) -> None:
    found, dims = DataType.Name(item.data_type).removeprefix("TYPE_"), list(item.dims)
    if found != datatype or dims not in ([size], [-1]):
        raise _unlike(config, f"{item.name} is {found} {dims}, expected {datatype} [{size}]")


def _unlike(config: ModelConfig, why: str) -> MalformedResponse:
    return MalformedResponse(f"The model {config.name} does not speak the whisper_bls dialect: {why}.")
