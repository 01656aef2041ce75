"""Holds a weight matrix in 8 or 4 bits, in the layout of onnxruntime's MatMulNBits.

Each column is cut into blocks of 32 values that share one scale. Values are symmetric: an unsigned integer around its
middle, so no zero points are stored.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BLOCK = 32


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """A matrix of `inputs` rows and `outputs` columns."""

    inputs: int
    outputs: int
    bits: int
    packed: NDArray[np.uint8]
    """[outputs, blocks, BLOCK * bits / 8]"""
    scales: NDArray[np.float32]
    """[outputs * blocks]"""


def quantize(matrix: NDArray[np.float32], bits: int) -> QuantizedMatrix:
    """Return an [inputs, outputs] matrix in 8 or 4 bits."""
    inputs, outputs = matrix.shape
    blocks = -(-inputs // BLOCK)
    padded = np.zeros((outputs, blocks * BLOCK), np.float32)
    padded[:, :inputs] = matrix.T
    grouped = padded.reshape(outputs, blocks, BLOCK)
    middle = 1 << (bits - 1)
    # The value farthest from zero becomes the lowest code, the only one that reaches a full `middle` steps.
    farthest = np.take_along_axis(grouped, np.abs(grouped).argmax(axis=2, keepdims=True), axis=2)
    scales = farthest / np.float32(-middle)
    inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales != 0)
    codes = np.clip(np.rint(grouped * inverse) + middle, 0, 2 * middle - 1).astype(np.uint8)
    packed = codes if bits == 8 else (codes[..., 0::2] | (codes[..., 1::2] << 4)).astype(np.uint8)
    return QuantizedMatrix(inputs, outputs, bits, np.ascontiguousarray(packed), scales.astype(np.float32).reshape(-1))
