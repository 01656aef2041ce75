import base64
import io
import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps
from transformers.image_transforms import convert_to_rgb

from conch_kit.errors import InvalidRequest
from conch_tokenizer.pictures.picture_files import decode, file_bytes
from testkit.models.pictures import base64_of, bomb, file_of, forms, picture, turned

PARAM = "messages.0.content.1.image_url"
MAX_PIXELS = 33_000_000
FORMS = forms()


def decoded(data: bytes, max_pixels: int = MAX_PIXELS) -> Image.Image:
    return decode(data, max_pixels, param=PARAM)


def refusal(data: bytes, max_pixels: int = MAX_PIXELS) -> str:
    with pytest.raises(InvalidRequest) as caught:
        decoded(data, max_pixels)
    assert (caught.value.param, caught.value.code) == (PARAM, "invalid_value")
    return caught.value.message


def as_transformers_sees_it(data: bytes) -> np.ndarray:
    return np.asarray(convert_to_rgb(ImageOps.exif_transpose(Image.open(io.BytesIO(data))), return_numpy=True))


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_the_pixels_that_transformers_makes_of_it(form: str) -> None:
    image = decoded(FORMS[form])
    assert image.mode == "RGB"
    np.testing.assert_array_equal(np.asarray(image), as_transformers_sees_it(FORMS[form]))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_upright(orientation: int, kind: str) -> None:
    data = turned(orientation, kind)
    np.testing.assert_array_equal(np.asarray(decoded(data)), as_transformers_sees_it(data))
    assert (decoded(data).size == picture().size) == (orientation < 5)


@pytest.mark.parametrize("exif", [b"Exif\0\0MM\0*\xff\xff\xff\xff", b"Exif\0\0rubbish", b"", b"Exif\0\0MM"])
def test_notes_that_cannot_be_read_turn_nothing(exif: bytes) -> None:
    image = picture()
    np.testing.assert_array_equal(np.asarray(decoded(file_of(image, exif=exif))), np.asarray(image))


def test_notes_that_are_long_are_not_read_for_an_orientation(monkeypatch: pytest.MonkeyPatch) -> None:
    image = picture()
    notes = Image.Exif()
    notes[ExifTags.Base.Orientation] = 6
    notes[ExifTags.Base.ImageDescription] = "x" * 300_000
    monkeypatch.setattr(Image.Image, "getexif", None)
    np.testing.assert_array_equal(np.asarray(decoded(file_of(image, exif=notes.tobytes()))), np.asarray(image))


def test_an_orientation_that_there_is_not_turns_nothing() -> None:
    np.testing.assert_array_equal(np.asarray(decoded(turned(77, "PNG"))), np.asarray(picture()))


def test_what_is_transparent_is_white() -> None:
    assert decoded(FORMS["rgba"]).getpixel((0, 0)) == (255, 255, 255)
    assert decoded(FORMS["clear colour"]).getpixel((0, 0)) == (255, 255, 255)


def test_grey_of_16_bits_keeps_its_shades_and_is_white_where_it_is_clear() -> None:
    shades = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    data = file_of(Image.fromarray(shades))
    np.testing.assert_array_equal(np.asarray(decoded(data))[..., 1], np.arange(256).reshape(16, 16))
    clear = _with_chunk(data, b"tRNS", struct.pack(">H", 257))
    assert [decoded(clear).getpixel((at, 0)) for at in (0, 1, 2)] == [(0, 0, 0), (255, 255, 255), (2, 2, 2)]


@pytest.mark.parametrize(
    ("size", "max_pixels", "said"),
    [
        ((8_000, 8_000), MAX_PIXELS, "at most 33000000 pixels, found 8000 x 8000"),
        ((10_000, 10_000), MAX_PIXELS, "at most 33000000 pixels, found 10000 x 10000"),
        ((60_000, 60_000), MAX_PIXELS, "at most 33000000 pixels, found 60000 x 60000"),
        ((101, 100), 10_000, "at most 10000 pixels, found 100 x 101"),
        ((8_001, 100), MAX_PIXELS, "sides of at most 8000 pixels, found 100 x 8001"),
        ((10, 2_001), MAX_PIXELS, "at most 200 times the shorter, found 2001 x 10"),
        ((10_000, 10_000), 2**40, "sides of at most 8000 pixels, found 10000 x 10000"),
    ],
)
def test_a_size_is_refused_before_anything_of_that_size_is_made(
    size: tuple[int, int], max_pixels: int, said: str
) -> None:
    assert said in refusal(_says_it_is(*size), max_pixels)


@pytest.mark.parametrize("size", [(100, 100), (8_000, 40), (1, 200)])
def test_the_largest_sizes_are_taken(size: tuple[int, int]) -> None:
    assert decoded(bomb(*size), max(10_000, size[0] * size[1])).size == size[::-1]


@pytest.mark.parametrize(
    "data",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.7",
        b"BM" + bytes(60),
        b"RIFF\0\0\0\0WAVEfmt ",
        b"II*\0",
        bytes(100),
    ],
)
def test_a_file_of_another_form_is_refused(data: bytes) -> None:
    assert "expected a PNG, JPEG, WEBP or GIF file" in refusal(data)


@pytest.mark.parametrize("form", ["png", "jpeg", "webp", "gif"])
def test_no_other_decoder_is_tried_at_a_damaged_file(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    open_one = Image.open
    monkeypatch.setattr(Image, "open", lambda *given, **named: opened.append(given) or open_one(*given, **named))
    monkeypatch.setattr(Image, "init", lambda: pytest.fail("all decoders that there are would be loaded"))
    whole = FORMS[form]
    for end in range(12, min(len(whole), 700)):
        with suppress(InvalidRequest):  # of WEBP something can be seen
            decoded(whole[:end] + bytes(200))
    assert opened


@pytest.mark.parametrize("form", ["png", "jpeg", "webp", "gif"])
def test_a_file_that_is_cut_off_or_damaged_is_refused(form: str) -> None:
    whole = FORMS[form]
    for end in (12, 20, len(whole) // 2, len(whole) * 3 // 4):
        assert "damaged or cut off" in refusal(whole[:end])
    assert "damaged or cut off" in refusal(whole[:12] + bytes(200))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "found no bytes"),
        (" \n", "found no bytes"),
        ("QUJDQ", "cut off"),
        ("QQ==QQ==", "'=' before its end"),
        ("QUJ-", "the character '-'"),
        ("data:image/png;base64,QQ==", "the character ':'"),
        ("http://ok.example/a.png", "the character ':'"),
        ("é" * 4, "the character 'é'"),
        ("QU\xa0I=", "the character '\\\\xa0'"),
        ("QU\u2003I=", "the character '\\\\u2003'"),
        ("QU\x0bI=", "the character '\\\\x0b'"),
        ("QU\x1cI=", "the character '\\\\x1c'"),
        ("QU\x85I=", "the character '\\\\x85'"),
        (base64.encodebytes(bytes(31)).decode(), "at most 30 bytes, found 31"),
        (base64_of(bytes(31)), "at most 30 bytes, found 31"),
    ],
)
def test_only_the_alphabet_of_base64_and_so_many_bytes_are_taken(data: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as caught:
        file_bytes(data, 30, param=PARAM)
    assert caught.value.param == PARAM


@pytest.mark.parametrize("count", [1, 2, 3, 29, 30])
def test_bytes_up_to_the_limit_come_out_as_they_went_in(count: int) -> None:
    data = bytes(range(count))
    assert file_bytes(base64.b64encode(data).decode(), 30, param=PARAM) == data


@pytest.mark.parametrize("data", ["QUI", "QUI=", "QU\nI", "\tQ U\r\nI=\n", "Q\fUI", "QUI=="])
def test_white_space_and_padding_may_be_as_tools_write_them(data: str) -> None:
    assert file_bytes(data, 30, param=PARAM) == b"AB"
    long = bytes(range(256))
    assert file_bytes(base64.encodebytes(long).decode(), 256, param=PARAM) == long


def _says_it_is(height: int, width: int) -> bytes:
    """Return a PNG that has nothing but its size."""
    said = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return _with_chunk(b"\x89PNG\r\n\x1a\n", b"IHDR", said, at=8) + struct.pack(">I", 9) + b"IDAT"


def _with_chunk(png: bytes, kind: bytes, data: bytes, *, at: int = 33) -> bytes:
    chunk = struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return png[:at] + chunk + png[at:]
