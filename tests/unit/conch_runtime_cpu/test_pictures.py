from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from conch_runtime_cpu.errors import UnservableRequest
from conch_runtime_cpu.pictures import PictureShape, ShownPicture, parse_pictures

SIDE, FEATURES, IMAGE = 2, 3, 9
SHAPE = PictureShape(SIDE, FEATURES, IMAGE)
PROMPT = np.array([1, *[IMAGE] * 3, *[IMAGE] * 3, 2, *[IMAGE] * 3], np.int32)
SPANS = [[1, 3], [4, 3], [8, 3]]


def tensors(count: int = 3, **changes: Any) -> dict[str, NDArray[np.generic]]:
    """Return those of so many pictures; a change of None leaves a tensor out."""
    made = {
        "image_pixels": np.arange(count * 12, dtype=np.uint8),
        "image_shapes": np.full((count, 3), (SIDE, SIDE, 3), np.int32).reshape(count, 3),
        "image_spans": np.array(SPANS[:count], np.int32).reshape(count, 2),
        "image_hashes": np.array([b"a", b"b", b"a"][:count], np.object_),
    }
    return {name: value for name, value in (made | changes).items() if value is not None}


def parse(found: dict[str, NDArray[np.generic]], shape: PictureShape | None = SHAPE) -> tuple[ShownPicture, ...]:
    return parse_pictures(found, PROMPT, shape)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_pictures_are_taken_apart_in_order(count: int) -> None:
    given = tensors(count)
    found = parse(given)
    assert [picture.start for picture in found] == [1, 4, 8][:count]
    assert [picture.digest for picture in found] == [b"a", b"b", b"a"][:count]
    for index, picture in enumerate(found):
        assert picture.pixels.flatten().tolist() == list(range(index * 12, index * 12 + 12))
        assert picture.pixels.shape == (SIDE, SIDE, 3)
        assert not np.shares_memory(picture.pixels, given["image_pixels"])


def test_a_request_without_them_has_none() -> None:
    assert parse({}) == ()
    assert parse({}, None) == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_pixels": None}, "image_pixels: missing"),
        ({"image_hashes": None}, "image_hashes: missing; pictures need image_pixels, image_shapes"),
        ({"image_pixels": np.zeros(36, np.int8)}, "image_pixels: must be uint8; found int8"),
        ({"image_shapes": np.full((3, 3), 2.0)}, "image_shapes: must be int32; found float64"),
        ({"image_spans": np.array(SPANS)}, "image_spans: must be int32; found int64"),
        ({"image_pixels": np.zeros((3, 12), np.uint8)}, r"image_pixels: must have the shape \[-1\]; found \[3, 12\]"),
        ({"image_spans": np.zeros((3, 3), np.int32)}, r"image_spans: must have the shape \[-1, 2\]; found \[3, 3\]"),
        ({"image_spans": np.array(SPANS[:2], np.int32)}, "image_spans: image_shapes has 3 pictures; found 2"),
        ({"image_hashes": np.array([b"a"], np.object_)}, "image_hashes: image_shapes has 3 pictures; found 1"),
        ({"image_shapes": np.array([[2, 2, 3], [2, 3, 3], [2, 2, 3]], np.int32)}, r"picture 1 must be \[2, 2, 3\]"),
        ({"image_shapes": np.array([[2, 2, 4]] * 3, np.int32)}, "image_shapes: picture 0"),
        ({"image_pixels": np.zeros(35, np.uint8)}, "image_pixels: 3 pictures have 36 bytes; found 35"),
        ({"image_spans": np.array([[1, 3], [4, 2], [8, 3]], np.int32)}, "picture 1 must have 3 ids; found 2"),
        ({"image_spans": np.array([[1, 3], [3, 3], [8, 3]], np.int32)}, "picture 1 begins at 3, before the end"),
        ({"image_spans": np.array([[4, 3], [1, 3], [8, 3]], np.int32)}, "picture 1 begins at 1, before the end"),
        ({"image_spans": np.array([[-1, 3], [4, 3], [8, 3]], np.int32)}, "picture 0 begins at -1"),
        ({"image_spans": np.array([[1, 3], [4, 3], [9, 3]], np.int32)}, "picture 2 ends at 12, and the prompt has 11"),
        ({"image_spans": np.array([[1, 3], [4, 3], [2**31 - 2, 3]], np.int32)}, "picture 2 ends at 2147483649"),
        ({"image_spans": np.array([[0, 3], [4, 3], [8, 3]], np.int32)}, "every id of picture 0 must be 9"),
        ({"image_spans": np.array([[1, 3], [5, 3], [8, 3]], np.int32)}, "every id of picture 1 must be 9"),
        ({"image_hashes": np.array([b"a", b"", b"c"], np.object_)}, "image_hashes: picture 1 has none"),
    ],
)
def test_what_does_not_fit_is_refused_by_the_tensors_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnservableRequest, match=rf"^image_.*{message.removeprefix('image_')}"):
        parse(tensors(**changes))


def test_a_model_without_eyes_refuses_every_picture() -> None:
    with pytest.raises(UnservableRequest, match=r"^image_pixels: this model sees no pictures"):
        parse(tensors(), None)
