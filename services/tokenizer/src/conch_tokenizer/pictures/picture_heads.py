"""What a picture's file says of itself before its pixels, read before any decoder is asked; pure.

Pillow reads that part piece by piece, skips what is no piece byte by byte, and makes room for the picture as soon as it
knows how large that is; libjpeg goes over all of a picture once for each of its scans. A file of some MB can be written
so that this takes seconds. So sizes come from here, and files that consist of far more pieces than any program writes
are refused. Whatever else is wrong is left to the decoders.
"""

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

# Named, because Pillow would else look for the decoder of WEBP by importing all that it has.
from PIL import GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

DAMAGED: Final = "this picture cannot be read: the file is damaged or cut off"
MOST_PIECES: Final = 16_384
"""Chunks, segments or blocks of one file. Programs write 4 or 8 KiB of pixels in each, and of a colour profile 255
bytes: files of the size that is taken have a few thousand. So many take Pillow 3 to 30 ms."""
MOST_SCANS: Final = 32
"""Of one JPEG. Progressive ones have 10, or 18 in four colours; each takes 9 ms for 33 million plain pixels."""
_MOST_JUNK: Final = 64 * 1024
"""Bytes between the segments of a JPEG, which say nothing."""

_MARKER: Final = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])")
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE: Final = frozenset({0x01, 0xD8, *range(0xF0, 0xFE)})
"""Markers that no length follows, as Pillow reads them."""
_END_OF_IMAGE, _SCAN = 0xD9, 0xDA
_EXTENSION, _IMAGE, _TRAILER = b"!,;"


@dataclass(frozen=True, slots=True)
class PictureHead:
    """What a file says that it is."""

    kind: str
    """What Pillow calls the format."""
    width: int
    height: int


class HeadRefused(Exception):
    """No decoder is asked about this file; says why."""


def read_head(data: bytes) -> PictureHead | None:
    """Return what a file says of itself, None where it is none of the four formats; raises HeadRefused."""
    for magic, (kind, size) in _FORMATS.items():
        if data.startswith(magic) and (magic != _RIFF or data[8:12] == b"WEBP"):
            try:
                return PictureHead(kind, *size(data))
            except (struct.error, IndexError) as exc:
                raise HeadRefused(DAMAGED) from exc
    return None


def _size_of_png(data: bytes) -> tuple[int, int]:
    if data[12:16] != b"IHDR":
        raise HeadRefused(DAMAGED)
    width, height = struct.unpack_from(">II", data, 16)
    at, profiles = 8, 0
    for _ in range(MOST_PIECES):
        kind = data[at + 4 : at + 8]
        profiles += kind == b"iCCP"
        if profiles > 1:  # Pillow unpacks each of them, to 1 MiB
            raise HeadRefused("expected a PNG with one colour profile, found more; save it anew")
        if len(kind) < 4 or kind == b"IEND":  # that it is cut off is told by the decoder
            return width, height
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    raise _too_many_pieces()


def _size_of_jpeg(data: bytes) -> tuple[int, int]:
    size: tuple[int, int] | None = None
    at, junk, scans = 2, 0, 0
    for _ in range(MOST_PIECES):
        # Behind the marker of a scan stands what belongs to it, before the first one nothing that is long.
        found = _MARKER.search(data, at, len(data) if scans else at + _MOST_JUNK - junk + 2)
        if found is None:
            break
        junk += 0 if scans else found.start() - at
        marker, at = found[1][0], found.end()
        if marker == _END_OF_IMAGE:
            break
        if marker in _BARE:
            continue
        if marker in _FRAMES and size is None:
            height, width = struct.unpack_from(">HH", data, at + 3)
            size = width, height
        scans += marker == _SCAN
        if scans > MOST_SCANS:
            raise HeadRefused(f"expected a JPEG of at most {MOST_SCANS} scans, found more; save it anew")
        at += max(2, int.from_bytes(data[at : at + 2], "big"))
    else:
        raise _too_many_pieces()
    if size is None or not scans:
        raise HeadRefused(DAMAGED)
    return size


def _size_of_gif(data: bytes) -> tuple[int, int]:
    """Return the size of the first picture; one that does not fit on what it is drawn on makes that larger."""
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + (3 << (flags & 7) + 1 if flags & 128 else 0)
    inside = False
    for _ in range(MOST_PIECES):
        block = data[at]
        if inside:
            inside = block > 0
            at += 1 + block
        elif block == _EXTENSION:
            inside = True
            at += 2
        elif block == _IMAGE:
            left, top, wide, high = struct.unpack_from("<4H", data, at + 1)
            return max(width, left + wide), max(height, top + high)
        elif block == _TRAILER:
            raise HeadRefused(DAMAGED)
        else:
            at += 1
    raise _too_many_pieces()


def _size_of_webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L" if data[20] == 0x2F:
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X" if len(data) >= 30:
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case _:
            raise HeadRefused(DAMAGED)


def _too_many_pieces() -> HeadRefused:
    return HeadRefused(f"expected a file of at most {MOST_PIECES} pieces, found more; save it anew")


_RIFF: Final = b"RIFF"
_FORMATS: Final[Mapping[bytes, tuple[str, Callable[[bytes], tuple[int, int]]]]] = {
    b"\x89PNG\r\n\x1a\n": (PngImagePlugin.PngImageFile.format, _size_of_png),
    b"\xff\xd8\xff": (JpegImagePlugin.JpegImageFile.format, _size_of_jpeg),
    b"GIF87a": (GifImagePlugin.GifImageFile.format, _size_of_gif),
    b"GIF89a": (GifImagePlugin.GifImageFile.format, _size_of_gif),
    _RIFF: (WebPImagePlugin.WebPImageFile.format, _size_of_webp),
}
