import numpy as np
import pytest

from conch_runtime_cpu.graphs.quantization import BLOCK, quantize
from testkit.models.quantized_matrix import dequantize


@pytest.mark.parametrize("inputs", [BLOCK, 3 * BLOCK, BLOCK + 5])
@pytest.mark.parametrize("bits", [4, 8])
def test_every_value_is_held_to_within_one_step_of_its_block(inputs: int, bits: int) -> None:
    matrix = np.random.default_rng(0).standard_normal((inputs, 7)).astype(np.float32)
    held = quantize(matrix, bits)
    assert held.packed.shape == (7, -(-inputs // BLOCK), BLOCK * bits // 8)
    steps = np.abs(held.scales.reshape(7, -1)).repeat(BLOCK, axis=1)[:, :inputs].T
    assert (np.abs(dequantize(held) - matrix) <= steps * 1.001).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_a_block_of_zeros_stays_zero(bits: int) -> None:
    assert not dequantize(quantize(np.zeros((BLOCK, 2), np.float32), bits)).any()
