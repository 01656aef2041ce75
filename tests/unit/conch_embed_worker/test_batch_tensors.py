import numpy as np
import pytest

from conch_contracts.dialects.encoder import ATTENTION_MASK, INPUT_IDS, PIXEL_VALUES, TOKEN_TYPE_IDS
from conch_contracts.messages.encoding import Row, RowPicture
from conch_contracts.messages.generation import PreparedPicture
from conch_embed_worker.batch_tensors import MAX_VECTOR, pack, pack_pictures, pack_shown, unpack
from conch_kit.triton.encoder_tensors import EncoderTensors
from conch_kit.triton.errors import MalformedResponse


def encoder(datatype: str, *, batched: bool = True) -> EncoderTensors:
    inputs = tuple((name, name.upper(), datatype) for name in (INPUT_IDS, ATTENTION_MASK, TOKEN_TYPE_IDS))
    return EncoderTensors(inputs, "out", max_rows=8, batched=batched, parallel=1)


@pytest.mark.parametrize(
    ("datatype", "dtype"), [("INT64", "<i8"), ("INT32", "<i4"), ("UINT32", "<u4"), ("UINT64", "<u8")]
)
def test_rows_are_padded_to_the_longest(datatype: str, dtype: str) -> None:
    rows = (Row(ids=(7, 8, 9, 10), second=3), Row(ids=(5,)))
    found = {name: (kind, shape, np.frombuffer(raw, dtype)) for name, kind, shape, raw in pack(rows, encoder(datatype))}
    assert {(kind, shape) for kind, shape, _ in found.values()} == {(datatype, (2, 4))}
    assert {name: list(numbers) for name, (_, _, numbers) in found.items()} == {
        "INPUT_IDS": [7, 8, 9, 10, 5, 0, 0, 0],
        "ATTENTION_MASK": [1, 1, 1, 1, 1, 0, 0, 0],
        "TOKEN_TYPE_IDS": [0, 0, 0, 1, 0, 0, 0, 0],
    }


def test_a_model_without_batches_gets_a_row_alone() -> None:
    assert {shape for _, _, shape, _ in pack((Row(ids=(7, 8)),), encoder("INT64", batched=False))} == {(2,)}


def test_a_model_that_takes_no_ids_is_refused() -> None:
    with pytest.raises(MalformedResponse, match="FP32"):
        pack((Row(ids=(7,)),), encoder("FP32"))


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
        ("FP32", (2, 0), 0),
        ("FP32", (2, 3, 0), 0),
        ("FP32", (2, MAX_VECTOR + 1), 8 * (MAX_VECTOR + 1)),
    ],
)
def test_numbers_that_are_not_those_of_the_rows_are_refused(datatype: str, shape: tuple[int, ...], size: int) -> None:
    with pytest.raises(MalformedResponse):
        unpack(datatype, shape, bytes(size), (3, 1))


def test_pictures_among_ids_are_shown_as_to_a_language_model_in_a_batch_of_one() -> None:
    first = PreparedPicture(data=bytes(range(6)), height=1, width=2, start=1, length=2, digest="a")
    second = PreparedPicture(data=bytes(3), height=1, width=1, start=4, length=1, digest="bc")
    found = {
        name: (kind, shape, raw) for name, kind, shape, raw in pack_shown(Row(ids=(1,) * 5, pictures=(first, second)))
    }
    assert found["image_pixels"] == ("UINT8", (1, 9), bytes(range(6)) + bytes(3))
    kind, shape, raw = found["image_shapes"]
    assert (kind, shape, np.frombuffer(raw, "<i4").tolist()) == ("INT32", (1, 2, 3), [1, 2, 3, 1, 1, 3])
    kind, shape, raw = found["image_spans"]
    assert (kind, shape, np.frombuffer(raw, "<i4").tolist()) == ("INT32", (1, 2, 2), [1, 2, 4, 1])
    assert found["image_hashes"] == ("BYTES", (1, 2), b"\1\0\0\0a\2\0\0\0bc")


def test_pictures_are_normalised_channel_by_channel() -> None:
    first = shown(bytes(range(12)))
    second = shown(bytes(12))
    ((name, kind, shape, raw),) = pack_pictures((first, second), picture_encoder())
    assert (name, kind, shape) == ("pixel_values", "FP32", (2, 3, 2, 2))
    values = np.frombuffer(raw, "<f4").reshape(shape)
    assert values[0].tolist() == [[[1, 4], [7, 10]], [[2, 8], [14, 20]], [[5, 14], [23, 32]]]
    assert values[1, :, 0, 0].tolist() == [1, 0, -1]


def test_a_model_that_takes_no_floats_is_shown_no_pictures() -> None:
    with pytest.raises(MalformedResponse, match="takes its input pixel_values as FP16"):
        pack_pictures((shown(bytes(12)),), picture_encoder("FP16"))


def shown(pixels: bytes) -> Row:
    picture = RowPicture(pixels=pixels, height=2, width=2, scale=(1.0, 2.0, 3.0), shift=(1.0, 0.0, -1.0), length=5)
    return Row(ids=(), picture=picture)


def picture_encoder(datatype: str = "FP32") -> EncoderTensors:
    inputs = ((PIXEL_VALUES, PIXEL_VALUES, datatype),)
    return EncoderTensors(inputs, "image_embeds", max_rows=8, batched=True, parallel=1)
