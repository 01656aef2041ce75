"""Pure: which tensors a model takes and gives, from its own config and the names that the deployment sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig, ModelInput, ModelOutput

from conch_contracts.dialects import encoder as dialect
from conch_contracts.dialects import tokens

MAX_ROWS = 256
MAX_PARALLEL = 64
"""Calls at once, whatever the config says: it may be somebody else's, and each answer may be as long as a message."""
ROWS_WITHOUT_A_LIMIT = 32
"""Rows for a model whose config holds the batch as a dimension of its own and so names no limit."""

MAX_PIXEL_BYTES = 32 * 1024**2
"""Of the pictures of one batch, well below what a gRPC message may hold; one picture may have more."""

_TOKENS_RANK = 3
"""Rows, tokens, numbers."""
_OUTPUTS = (
    "sentence_embedding",
    dialect.LAST_HIDDEN_STATE,
    "token_embeddings",
    dialect.LOGITS,
    "scores",
    dialect.TEXT_EMBEDS,
)


class UnknownTensors(Exception):
    """A model whose tensors are not those of an encoder; the message says what to set."""


class NoPictures(UnknownTensors):
    """A model that has no tensors for pictures, whatever it has for texts."""


@dataclass(frozen=True, slots=True)
class EncoderTensors:
    """How rows are sent to one model."""

    inputs: tuple[tuple[str, str, str], ...]
    """What each holds (a name of `conch_contracts.dialects.encoder`), its name, and its datatype on the wire."""
    output: str
    max_rows: int
    batched: bool
    """Whether the first dimension of each tensor is the batch."""
    parallel: int
    """Calls that keep the model's instances busy."""
    token_numbers: int | None = None
    """How many numbers the output has for each token, 0 where it has no tokens; None: the config does not say."""
    number_bytes: int = 4
    """How many bytes one of them takes at most."""


def read_encoder_tensors(config: ModelConfig, inputs: Mapping[str, str], output: str | None) -> EncoderTensors:
    """Return how rows are sent to a model; the deployment may name its inputs, and the output to read.

    Raises UnknownTensors.
    """
    names = {inputs.get(logical, logical): logical for logical in dialect.INPUTS}
    batched = config.max_batch_size > 0 or all(len(item.dims) > 1 for item in config.input)
    chosen = _output(config, output)
    limit = config.max_batch_size or (ROWS_WITHOUT_A_LIMIT if batched else 1)
    return EncoderTensors(
        inputs=tuple(_input(item, names) for item in config.input if item.name in names or not item.optional),
        output=chosen,
        max_rows=min(MAX_ROWS, limit),
        batched=batched,
        parallel=_parallel(config),
        token_numbers=_token_numbers(config, chosen),
        number_bytes=8 if _output_of(config, chosen).data_type == DataType.TYPE_FP64 else 4,
    )


def read_picture_tensors(config: ModelConfig, values: int) -> EncoderTensors:
    """Return how rows of pictures are sent to a model, each of so many values; raises NoPictures."""
    inputs = {item.name: DataType.Name(item.data_type).removeprefix("TYPE_") for item in config.input}
    given = [item.name for item in config.output]
    if dialect.PIXEL_VALUES not in inputs or dialect.IMAGE_EMBEDS not in given:
        raise NoPictures(
            f"The model has no input {dialect.PIXEL_VALUES} and output {dialect.IMAGE_EMBEDS}, so it takes no pictures."
        )
    needed = next((item.name for item in config.input if item.name != dialect.PIXEL_VALUES and not item.optional), None)
    if needed is not None:
        raise NoPictures(f"The model takes pictures with its input {needed} alone, which has no picture's values.")
    fitting = MAX_PIXEL_BYTES // (4 * values)
    return EncoderTensors(
        inputs=((dialect.PIXEL_VALUES, dialect.PIXEL_VALUES, inputs[dialect.PIXEL_VALUES]),),
        output=dialect.IMAGE_EMBEDS,
        max_rows=max(1, min(MAX_ROWS, config.max_batch_size or ROWS_WITHOUT_A_LIMIT, fitting)),
        batched=True,
        parallel=_parallel(config),
        token_numbers=0,
    )


def read_seeing_tensors(config: ModelConfig, inputs: Mapping[str, str], output: str | None) -> EncoderTensors:
    """Return how a text with pictures in it is sent to a model: it is a batch of its own.

    Raises UnknownTensors as `read_encoder_tensors`, and NoPictures.
    """
    given = {item.name for item in config.input}
    missing = next((name for name in tokens.IMAGES if name not in given), None)
    if missing is not None:
        raise NoPictures(f"The model has no input {missing}, so it takes no pictures among texts.")
    return replace(read_encoder_tensors(config, inputs, output), max_rows=1)


def _parallel(config: ModelConfig) -> int:
    return min(MAX_PARALLEL, 1 + max(1, sum(int(group.count) for group in config.instance_group)))


def _input(item: ModelInput, names: Mapping[str, str]) -> tuple[str, str, str]:
    if item.name not in names:
        raise UnknownTensors(
            f"The model takes an input {item.name}; spec.tensors.inputs must say which of "
            f"{', '.join(dialect.INPUTS)} it is."
        )
    return names[item.name], item.name, DataType.Name(item.data_type).removeprefix("TYPE_")


def _token_numbers(config: ModelConfig, name: str) -> int | None:
    dims = ([-1] if config.max_batch_size else []) + list(_output_of(config, name).dims)
    if len(dims) != _TOKENS_RANK:
        return 0
    return int(dims[-1]) if dims[-1] > 0 else None


def _output_of(config: ModelConfig, name: str) -> ModelOutput:
    return next(item for item in config.output if item.name == name)


def _output(config: ModelConfig, wanted: str | None) -> str:
    given = [item.name for item in config.output]
    if wanted is not None:
        return _named(wanted, given)
    return next((name for name in _OUTPUTS if name in given), None) or _named(None, given)


def _named(wanted: str | None, given: Sequence[str]) -> str:
    if wanted in given:
        return str(wanted)
    if wanted is None and len(given) == 1:
        return given[0]
    found, looked_for = ", ".join(given) or "none", wanted or "with a usual name"
    raise UnknownTensors(f"The model has no output {looked_for}, but {found}; set spec.tensors.output.name.")
