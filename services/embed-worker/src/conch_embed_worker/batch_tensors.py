"""Pure: rows of texts or of pictures as the tensors of one batch, and an engine's tensor as numbers for each row."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from conch_contracts.dialects import encoder as dialect
from conch_contracts.messages.encoding import Row, RowPicture
from conch_kit.triton import tensors
from conch_kit.triton.encoder_tensors import EncoderTensors
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.picture_tensors import PackedTensor, picture_tensors

Numbers = NDArray[np.float32]

MAX_VECTOR = 512 * 1024
"""Numbers in one vector; a number for each word of a vocabulary is the longest that models give."""

_CHANNELS = 3
_ONES = {datatype: tensors.pack(datatype, (1,)) for datatype in ("INT64", "INT32", "UINT32", "UINT64")}
_FLOATS = {"FP32": "<f4", "FP16": "<f2", "FP64": "<f8"}


def pack(rows: Sequence[Row], encoder: EncoderTensors) -> list[PackedTensor]:
    """Return each input of a batch of texts.

    Between two requests an engine has filled the processor's caches, and every call of numpy is slow again: bytes do.
    """
    width = max(len(row.ids) for row in rows)
    sent = (len(rows), width) if encoder.batched else (width,)
    packed: list[PackedTensor] = []
    for logical, name, datatype in encoder.inputs:
        if datatype not in _ONES:
            raise MalformedResponse(f"The model takes its input {name} as {datatype}, which holds no ids.")
        one = _ONES[datatype]
        filled = [_filled(row, logical, datatype, one).ljust(width * len(one), b"\0") for row in rows]
        packed.append((name, datatype, sent, filled[0] if len(filled) == 1 else b"".join(filled)))
    return packed


def _filled(row: Row, logical: str, datatype: str, one: bytes) -> bytes:
    length = len(row.ids)
    match logical:
        case dialect.INPUT_IDS:
            return tensors.pack(datatype, row.ids)
        case dialect.ATTENTION_MASK:
            return one * length
        case _:
            first = length if row.second is None else row.second
            return bytes(first * len(one)) + one * (length - first)


def pack_pictures(rows: Sequence[Row], encoder: EncoderTensors) -> list[PackedTensor]:
    """Return the input of a batch of pictures, which all have one size."""
    ((_, name, datatype),) = encoder.inputs
    if datatype != "FP32":
        raise MalformedResponse(f"The model takes its input {name} as {datatype}, expected FP32.")
    values = np.stack([_values(row.picture) for row in rows if row.picture is not None])
    return [(name, datatype, values.shape, values.tobytes())]


def _values(picture: RowPicture) -> Numbers:
    """Return a picture as its model was trained on it, [3, height, width]."""
    pixels = np.frombuffer(picture.pixels, np.uint8).reshape(picture.height, picture.width, _CHANNELS)
    values = pixels.astype(np.float32) * np.array(picture.scale, np.float32) + np.array(picture.shift, np.float32)
    return values.transpose(2, 0, 1)


def pack_shown(row: Row) -> list[PackedTensor]:
    """Return the inputs that show the pictures among a text's ids to its model, in a batch of one row."""
    return [(name, datatype, (1, *shape), raw) for name, datatype, shape, raw in picture_tensors(row.pictures)]


def unpack(datatype: str, shape: Sequence[int], raw: bytes, lengths: Sequence[int]) -> Numbers:
    """Return the numbers of rows with so many tokens each; raises MalformedResponse."""
    if datatype not in _FLOATS:
        raise MalformedResponse(f"The engine's output is of type {datatype}, expected one of {', '.join(_FLOATS)}.")
    try:
        numbers = np.frombuffer(raw, _FLOATS[datatype]).reshape(shape)
    except ValueError as error:
        raise MalformedResponse(f"The engine's output has {len(raw)} bytes, which is not {list(shape)}.") from error
    if datatype != "FP32":
        numbers = numbers.astype(np.float32)
    if len(lengths) == 1 and (numbers.ndim < 2 or numbers.shape[0] != 1):
        numbers = numbers[np.newaxis]
    if numbers.ndim not in (2, 3) or len(numbers) != len(lengths):
        raise MalformedResponse(f"The engine's output has the shape {list(shape)} for {len(lengths)} rows.")
    if not 0 < numbers.shape[-1] <= MAX_VECTOR:
        raise MalformedResponse(f"The engine's output has vectors of {numbers.shape[-1]} numbers.")
    if numbers.ndim == 3 and numbers.shape[1] < max(lengths):
        raise MalformedResponse(f"The engine's output has the shape {list(shape)} for {max(lengths)} tokens.")
    return numbers
