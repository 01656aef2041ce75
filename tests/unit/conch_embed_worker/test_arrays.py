import numpy as np
import pytest

from conch_embed_worker.arrays import unpack
from conch_kit.triton.errors import MalformedResponse


@pytest.mark.parametrize(
    ("shape", "lengths", "expected"),
    [
        ((2, 3, 4), (3, 1), (2, 3, 4)),
        ((2, 5, 4), (3, 1), (2, 5, 4)),
        ((2, 4), (3, 1), (2, 4)),
        ((3, 4), (3,), (1, 3, 4)),
        ((4,), (3,), (1, 4)),
    ],
)
def test_numbers_are_those_of_each_row(
    shape: tuple[int, ...], lengths: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert unpack("FP32", shape, bytes(4 * int(np.prod(shape))), lengths).shape == expected


@pytest.mark.parametrize(
    ("datatype", "shape", "size"),
    [
        ("INT64", (2, 4), 64),
        ("FP32", (2, 4), 31),
        ("FP32", (3, 4), 48),
        ("FP32", (2, 1, 4), 32),
        ("FP32", (2, 0, 4), 0),
    ],
)
def test_numbers_that_are_not_those_of_the_rows_are_refused(datatype: str, shape: tuple[int, ...], size: int) -> None:
    with pytest.raises(MalformedResponse):
        unpack(datatype, shape, bytes(size), (3, 1))
