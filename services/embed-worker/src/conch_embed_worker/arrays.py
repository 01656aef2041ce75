"""Pure: rows as the tensors of one batch, and an engine's tensor as numbers for each row."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from conch_contracts import encoder_dialect as dialect
from conch_contracts.encoding import Row
from conch_kit.triton.encoder_layout import Layout
from conch_kit.triton.errors import MalformedResponse

Numbers = NDArray[np.float32]

_WIRE = {"INT64": "<i8", "INT32": "<i4", "UINT32": "<u4", "UINT64": "<u8"}
_FLOATS = {"FP32": "<f4", "FP16": "<f2", "FP64": "<f8"}


def pack(rows: Sequence[Row], layout: Layout) -> list[tuple[str, str, tuple[int, ...], bytes]]:
    """Return each input's name, datatype, shape and packed elements."""
    lengths = [len(row.ids) for row in rows]
    shape = (len(rows), max(lengths))
    filled = {
        dialect.INPUT_IDS: np.zeros(shape, np.int64),
        dialect.ATTENTION_MASK: np.zeros(shape, np.int64),
        dialect.TOKEN_TYPE_IDS: np.zeros(shape, np.int64),
    }
    for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        filled[dialect.INPUT_IDS][index, :length] = row.ids
        filled[dialect.ATTENTION_MASK][index, :length] = 1
        if row.second is not None:
            filled[dialect.TOKEN_TYPE_IDS][index, row.second : length] = 1
    sent = shape if layout.batched else shape[1:]
    packed: list[tuple[str, str, tuple[int, ...], bytes]] = []
    for logical, name, datatype in layout.inputs:
        if datatype not in _WIRE:
            raise MalformedResponse(f"The model takes its input {name} as {datatype}, which holds no ids.")
        packed.append((name, datatype, sent, filled[logical].astype(_WIRE[datatype]).tobytes()))
    return packed


def unpack(datatype: str, shape: Sequence[int], raw: bytes, lengths: Sequence[int]) -> Numbers:
    """Return the numbers of rows with so many tokens each; raises MalformedResponse."""
    if datatype not in _FLOATS:
        raise MalformedResponse(f"The engine's output is of type {datatype}, expected one of {', '.join(_FLOATS)}.")
    try:
        numbers = np.frombuffer(raw, _FLOATS[datatype]).reshape(shape).astype(np.float32, copy=False)
    except ValueError as error:
        raise MalformedResponse(f"The engine's output has {len(raw)} bytes, which is not {list(shape)}.") from error
    if len(lengths) == 1 and (numbers.ndim < 2 or numbers.shape[0] != 1):
        numbers = numbers[np.newaxis]
    if numbers.ndim not in (2, 3) or len(numbers) != len(lengths):
        raise MalformedResponse(f"The engine's output has the shape {list(shape)} for {len(lengths)} rows.")
    if numbers.ndim == 3 and numbers.shape[1] < max(lengths):
        raise MalformedResponse(f"The engine's output has the shape {list(shape)} for {max(lengths)} tokens.")
    return numbers
