"""What a picture's file says of itself, and that none is long in saying it."""

import io
import struct
import time
import zlib

import pytest
from PIL import Image

from conch_kit.errors import InvalidRequest
from conch_tokenizer.pictures.picture_files import decode
from conch_tokenizer.pictures.picture_heads import DAMAGED, MOST_PIECES, MOST_SCANS, HeadRefused, read_head
from testkit.models.pictures import file_of, forms, picture, turned

FORMS = {**forms(), **{f"turned {kind}": turned(6, kind) for kind in ("JPEG", "PNG", "WEBP")}}
HEAVY_BYTES = 7_000_000
"""As base64, most of what a gateway takes as one body."""
JPEG, PROGRESSIVE, GIF, PNG = FORMS["jpeg"], FORMS["progressive jpeg"], FORMS["gif"], FORMS["png"]
FRAME, SCAN = b"\xff\xc0", b"\xff\xda"
TOO_MANY = f"at most {MOST_PIECES} pieces"


def gif(blocks: bytes) -> bytes:
    return struct.pack("<6sHHBBB", b"GIF89a", 10, 10, 0, 0, 0) + blocks


def chunks(kind: bytes, count: int) -> bytes:
    return (struct.pack(">I", 1) + kind + b"a" + struct.pack(">I", zlib.crc32(kind + b"a"))) * count


def with_scans(jpeg: bytes, count: int) -> bytes:
    """Return a JPEG with its scans so many times."""
    first = jpeg.index(SCAN)
    return jpeg[:-2] + jpeg[first:-2] * (count - 1) + jpeg[-2:]


def behind_frame(jpeg: bytes, more: bytes) -> bytes:
    """Return a JPEG with something before its first scan."""
    first = jpeg.index(SCAN)
    return jpeg[:first] + more + jpeg[first:]


HEAVY = {
    "JPEG of fill bytes": (b"\xff\xd8" + b"\xff" * HEAVY_BYTES, DAMAGED),
    "JPEG with fill bytes": (behind_frame(JPEG, b"\xff" * HEAVY_BYTES), DAMAGED),
    "JPEG with rubbish": (behind_frame(JPEG, b"a" * HEAVY_BYTES), DAMAGED),
    "JPEG with rubbish behind markers": (behind_frame(JPEG, (b"\xff\xf0" + b"a" * 65) * 100_000), DAMAGED),
    "JPEG of empty segments": (behind_frame(JPEG, b"\xff\xe5\0\2" * (HEAVY_BYTES // 4)), TOO_MANY),
    "JPEG of bare markers": (behind_frame(JPEG, b"\xff\xd8" * (HEAVY_BYTES // 2)), TOO_MANY),
    "JPEG of scans": (with_scans(PROGRESSIVE, 2_000), f"at most {MOST_SCANS} scans"),
    "GIF of rubbish": (gif(b"a" * HEAVY_BYTES), TOO_MANY),
    "GIF of small blocks": (gif(b"!\xfe" + b"\1a" * (HEAVY_BYTES // 2)), TOO_MANY),
    "GIF of no blocks": (gif(b"!\xfe\0" * (HEAVY_BYTES // 3)), TOO_MANY),
    "PNG of notes": (PNG[:33] + chunks(b"tEXt", 500_000) + PNG[33:], TOO_MANY),
    "PNG of small pieces": (PNG[:33] + chunks(b"IDAT", 500_000) + PNG[33:], TOO_MANY),
    "PNG of colour profiles": (PNG[:33] + chunks(b"iCCP", 2) + PNG[33:], "one colour profile"),
    "PNG with notes at its end": (PNG[:-12] + chunks(b"tEXt", 500_000) + PNG[-12:], TOO_MANY),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_as_large_as_its_decoder_finds(form: str) -> None:
    head = read_head(FORMS[form])
    with Image.open(io.BytesIO(FORMS[form])) as image:
        assert head is not None
        assert (head.kind, head.width, head.height) == (image.format, *image.size)


def test_a_gif_is_as_large_as_its_first_picture_makes_it() -> None:
    data = bytearray(GIF)
    data[6:10] = struct.pack("<HH", 3, 200)
    head = read_head(bytes(data))
    assert head is not None
    with Image.open(io.BytesIO(data)) as image:
        assert (head.width, head.height) == image.size == (90, 200)


@pytest.mark.parametrize("case", HEAVY)
def test_a_heavy_file_is_refused_at_once(case: str) -> None:
    data, said = HEAVY[case]
    took = []
    for _ in range(3):
        began = time.thread_time()
        with pytest.raises(InvalidRequest) as refused:
            decode(data, 33_000_000, param="here")
        took.append(time.thread_time() - began)
        assert said in refused.value.message
    assert min(took) < 0.1


def test_files_as_programs_write_them_have_few_enough_pieces() -> None:
    colours = b"\xff\xe2\xff\xff" + bytes(65_533)
    assert read_head(behind_frame(JPEG, b"\xff" * 1_000 + colours * 255)) is not None
    assert read_head(behind_frame(JPEG, b"\0" * 60_000)) is not None
    piece = struct.pack(">I", 4096) + b"IDAT" + bytes(4100)
    assert read_head(PNG[:33] + piece * 5_000 + PNG[33:]) is not None
    assert read_head(gif(b"!\xff" + (b"\xff" + bytes(255)) * 8_000 + b"\0" + GIF[GIF.index(b",") :])) is not None


def test_scans_are_those_of_the_first_picture() -> None:
    with_preview = behind_frame(PROGRESSIVE, b"\xff\xe1" + struct.pack(">H", len(JPEG) + 2) + JPEG)
    assert read_head(with_preview + PROGRESSIVE * 10) == read_head(PROGRESSIVE)
    four = file_of(picture().convert("CMYK"), "JPEG", progressive=True)
    decode(four, 33_000_000, param="here")
    assert four.count(SCAN) > 10


def test_a_file_that_says_two_sizes_is_refused() -> None:
    second = FRAME + struct.pack(">HBHHB", 11, 8, 8_000, 8_000, 1) + b"\1\x11\0"
    with pytest.raises(InvalidRequest, match="another size than it says"):
        decode(behind_frame(JPEG, second), 33_000_000, param="here")


@pytest.mark.parametrize("data", [b"\xff\xd8\xff\xd9", JPEG[: JPEG.index(FRAME) + 4], JPEG[: JPEG.index(SCAN)]])
def test_a_jpeg_without_a_frame_or_a_scan_is_damaged(data: bytes) -> None:
    with pytest.raises(HeadRefused, match="damaged"):
        read_head(data)
