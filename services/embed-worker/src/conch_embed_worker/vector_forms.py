"""Pure: the forms in which a vector can be written beside a list of its numbers."""

import base64
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

from conch_contracts.openai.encoders.vectors import NumberType, VectorType
from conch_embed_worker.batch_tensors import Numbers
from conch_kit.errors import InvalidRequest

_DTYPES: dict[NumberType, DTypeLike] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
}
BYTES_OF_NUMBER: dict[NumberType, int] = {name: np.dtype(kind).itemsize for name, kind in _DTYPES.items()}
_LARGEST = 127
_BITS = 8


def packed(vector: Numbers, dtype: NumberType = "float32", *, big_endian: bool = False) -> bytes:
    """Return the numbers one after the other; raises InvalidRequest for one that the type cannot hold."""
    if dtype == "float32" and not big_endian:
        return vector.tobytes()
    with np.errstate(over="ignore"):
        narrow = vector.astype(_DTYPES[dtype])
    if not np.isfinite(narrow.astype(np.float32)).all():
        raise InvalidRequest(
            f"The vectors hold numbers that are too large for 'embed_dtype' {dtype}. Please ask for 'bfloat16', or for "
            "'normalize': true.",
            param="embed_dtype",
            code="invalid_value",
        )
    return narrow.view(f"u{narrow.itemsize}").byteswap().tobytes() if big_endian else narrow.tobytes()


def packed_text(vector: Numbers, dtype: NumberType = "float32", *, big_endian: bool = False) -> str:
    """Return the same as base64."""
    return base64.b64encode(packed(vector, dtype, big_endian=big_endian)).decode()


def typed(vectors: Sequence[Numbers], kind: VectorType) -> list[Any]:
    """Return each vector in one of Cohere's forms; raises InvalidRequest where it has none of that form."""
    match kind:
        case "float":
            return [np.ascontiguousarray(vector) for vector in vectors]
        case "base64":
            return [packed_text(vector) for vector in vectors]
        case "int8":
            return [_levels(vector).astype(np.int8) for vector in vectors]
        case "uint8":
            return [(_levels(vector) + 128).astype(np.uint8) for vector in vectors]
        case "binary":
            return [(_signs(vector).astype(np.int16) - 128).astype(np.int8) for vector in vectors]
        case "ubinary":
            return [_signs(vector) for vector in vectors]


def _levels(vector: Numbers) -> Numbers:
    """Return the vector with its largest number at 127, in whole numbers."""
    largest = float(np.abs(vector).max())
    levels: Numbers = np.rint(vector.astype(np.float64) * (_LARGEST / largest if largest else 1)).astype(np.float32)
    return levels


def _signs(vector: Numbers) -> NDArray[np.uint8]:
    if len(vector) % _BITS:
        raise InvalidRequest(
            f"Vectors of {len(vector)} numbers cannot be packed eight to a byte. Please leave 'binary' and 'ubinary' "
            "out of 'embedding_types', or ask for a dimension that is a multiple of 8.",
            param="embedding_types",
            code="invalid_value",
        )
    return np.packbits(vector >= 0)
