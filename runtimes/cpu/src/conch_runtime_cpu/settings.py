"""The settings that the operator wrote into the Triton model's configuration."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conch_contracts import cpu_runtime
from conch_contracts.cpu_runtime import Quantization
from conch_contracts.dialects import encoder
from conch_runtime_cpu.errors import UnusableModel


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """How one model is served."""

    model_folder: Path
    cache_folder: Path
    quantization: Quantization
    max_batch_size: int
    tokens_per_second: int
    kv_cache_bytes: int
    max_length: int
    """The most tokens of a sequence; 0 for what the model was made for."""
    feature_cache_bytes: int = cpu_runtime.DEFAULT_FEATURE_CACHE_BYTES
    """How much of the pictures that were seen is kept."""


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """How one encoder is served."""

    model_folder: Path
    cache_folder: Path
    output: str
    """What the engine gives: `last_hidden_state` or `logits`."""


def parse_encoder_settings(model_config: str) -> EncoderSettings:
    """Read an encoder's settings from Triton's model configuration, as JSON; raises UnusableModel."""
    parameters = json.loads(model_config)["parameters"]
    output = _text(parameters, cpu_runtime.OUTPUT)
    if output not in encoder.OUTPUTS:
        choices = ", ".join(encoder.OUTPUTS)
        raise UnusableModel(f"config.pbtxt: output must be one of {choices}; found {output!r}.")
    return EncoderSettings(
        model_folder=Path(_text(parameters, cpu_runtime.MODEL_FOLDER)),
        cache_folder=Path(_text(parameters, cpu_runtime.CACHE_FOLDER)),
        output=output,
    )


def parse_settings(model_config: str) -> RuntimeSettings:
    """Read the settings from Triton's model configuration, as JSON; raises UnusableModel."""
    parameters = json.loads(model_config)["parameters"]
    return RuntimeSettings(
        model_folder=Path(_text(parameters, cpu_runtime.MODEL_FOLDER)),
        cache_folder=Path(_text(parameters, cpu_runtime.CACHE_FOLDER)),
        quantization=_quantization(_text(parameters, cpu_runtime.QUANTIZATION)),
        max_batch_size=_whole_number(parameters, cpu_runtime.MAX_BATCH_SIZE, least=1),
        tokens_per_second=_whole_number(parameters, cpu_runtime.TOKENS_PER_SECOND, least=0),
        kv_cache_bytes=_whole_number(parameters, cpu_runtime.KV_CACHE_BYTES, least=1),
        max_length=_whole_number(parameters, cpu_runtime.MAX_LENGTH, least=0),
        feature_cache_bytes=_feature_cache_bytes(parameters),
    )


def _text(parameters: Mapping[str, Mapping[str, str]], name: str) -> str:
    if name not in parameters:
        raise UnusableModel(f"config.pbtxt: parameter {name} is missing.")
    return parameters[name]["string_value"]


def _quantization(value: str) -> Quantization:
    try:
        return Quantization(value)
    except ValueError:
        choices = ", ".join(Quantization)
        raise UnusableModel(f"config.pbtxt: quantization must be one of {choices}; found {value!r}.") from None


def _feature_cache_bytes(parameters: Mapping[str, Mapping[str, str]]) -> int:
    if cpu_runtime.FEATURE_CACHE_BYTES not in parameters:
        return cpu_runtime.DEFAULT_FEATURE_CACHE_BYTES
    return _whole_number(parameters, cpu_runtime.FEATURE_CACHE_BYTES, least=0)


def _whole_number(parameters: Mapping[str, Mapping[str, str]], name: str, *, least: int) -> int:
    value = _text(parameters, name)
    if not value.isascii() or not value.isdigit() or int(value) < least:
        raise UnusableModel(f"config.pbtxt: {name} must be a whole number of at least {least}; found {value!r}.")
    return int(value)
