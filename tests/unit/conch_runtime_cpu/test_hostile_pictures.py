"""Whatever tensors a request has for pictures, it is refused by a tensor's name, or its pictures can be looked at."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from conch_runtime_cpu.errors import UnservableRequest
from conch_runtime_cpu.pictures import TENSORS, PictureShape, parse_pictures

SIDE, FEATURES, IMAGE = 2, 3, 9
SHAPE = PictureShape(SIDE, FEATURES, IMAGE)
PROMPT = np.array([1, *[IMAGE] * 6, 2, *[IMAGE] * 3], np.int32)
SHAPES = st.one_of(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4), st.sampled_from([(12,), (24,)]))
DTYPES = st.sampled_from([np.uint8, np.int32, np.int64, np.float32])
PLACES = st.one_of(st.sampled_from([1, 4, 8]), st.integers(-(2**31), 2**31 - 1))


@st.composite
def right(draw: st.DrawFn) -> dict[str, NDArray[np.generic]]:
    """Return tensors whose types and shapes suit each other."""
    count = draw(st.integers(0, 3))
    spans = [[draw(PLACES), draw(st.sampled_from([FEATURES] * 9 + [2]))] for _ in range(count)]
    return {
        "image_pixels": np.arange(count * 12, dtype=np.uint8),
        "image_shapes": np.full((count, 3), [SIDE, SIDE, 3], np.int32),
        "image_spans": np.array(spans, np.int32).reshape(count, 2),
        "image_hashes": np.array([draw(st.binary(max_size=2)) for _ in range(count)], np.object_),
    }


ANY = st.dictionaries(st.sampled_from(TENSORS), DTYPES.flatmap(lambda dtype: arrays.arrays(dtype, SHAPES)))


@given(right(), ANY, st.sets(st.sampled_from(TENSORS)))
def test_pictures_are_refused_by_name_or_fit_their_prompt(
    tensors: dict[str, NDArray[np.generic]], other: dict[str, NDArray[np.generic]], left_out: set[str]
) -> None:
    for found in (tensors, tensors | other, {name: one for name, one in tensors.items() if name not in left_out}):
        try:
            pictures = parse_pictures(found, PROMPT, SHAPE)
        except UnservableRequest as error:
            name, _, reason = str(error).partition(": ")
            assert name in TENSORS
            assert reason
            continue
        end = 0
        for picture in pictures:
            assert picture.start >= end
            end = picture.start + FEATURES
            assert (PROMPT[picture.start : end] == IMAGE).all()
            assert len(PROMPT) >= end
            assert picture.pixels.shape == (SIDE, SIDE, 3)
            assert picture.digest
