"""Reads a quantized matrix back, as onnxruntime documents the layout of MatMulNBits."""

import numpy as np
from numpy.typing import NDArray

from conch_runtime_cpu.graphs.quantization import BLOCK, QuantizedMatrix


def dequantize(held: QuantizedMatrix) -> NDArray[np.float32]:
    """Return the matrix, [inputs, outputs]."""
    codes = held.packed.astype(np.int32)
    if held.bits == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=-1)
    codes = codes.reshape(held.outputs, -1, BLOCK) - (1 << (held.bits - 1))
    scales = held.scales.reshape(held.outputs, -1, 1)
    matrix: NDArray[np.float32] = (codes * scales).reshape(held.outputs, -1)[:, : held.inputs].T.astype(np.float32)
    return matrix
