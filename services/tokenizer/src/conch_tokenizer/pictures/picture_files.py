"""Pictures as files: base64 to bytes, bytes to pixels.

Whoever writes a prompt writes these bytes, so a size is looked at before anything of that size is made, only four
decoders of Pillow are ever asked, and what they raise is the picture's fault. They run in a child that is killed when
one takes too long.
"""

import binascii
import io
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from PIL import ExifTags, Image

from conch_contracts.messages.tokenization import without_white_space
from conch_kit.errors import InvalidRequest
from conch_tokenizer.pictures.picture_heads import DAMAGED, HeadRefused, PictureHead, read_head

MAX_SIDE: Final = 8_000
MAX_RATIO: Final = 200
"""Of the longer side to the shorter one."""
_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/=]")
_UPRIGHT: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What undoes each orientation of EXIF. `ImageOps.exif_transpose` would write all other notes anew as well, and fail at
those that cameras write wrong."""
_NOTES: Final = ("exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp")
"""Where Pillow looks for the orientation."""
_MOST_NOTES: Final = 256 * 1024
"""Bytes or characters of them; longer ones say nothing of the picture, since reading them may take seconds."""
_OTHER_SIZE: Final = "this picture has another size than it says"
_WHITE: Final = (255, 255, 255, 255)
_DECODER_FAILURES: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""What Pillow's decoders raise at bytes that are no picture."""


def file_bytes(data: str, max_bytes: int, *, param: str) -> bytes:
    """Return the bytes of a picture that came as base64; raises InvalidRequest.

    It may have white space in it and no padding, as many tools write it.
    """
    try:
        found = binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        found = _from_lines(data, param)
    if len(found) > max_bytes:
        raise _refused(f"expected a picture of at most {max_bytes} bytes, found {len(found)}", param)
    if not found:
        raise _refused("expected a picture, found no bytes", param)
    return found


def _from_lines(data: str, param: str) -> bytes:
    plain = without_white_space(data)
    foreign = _NOT_BASE64.search(plain)
    if foreign is not None:
        raise _refused(f"expected the file in base64, found the character {foreign[0]!r} in it", param)
    digits = plain.rstrip("=")
    if "=" in digits:
        raise _refused("expected the file in base64, found '=' before its end", param)
    try:
        return binascii.a2b_base64(digits + "=" * (-len(digits) % 4), strict_mode=True)
    except ValueError as exc:  # of four characters there is one
        raise _refused("expected the file in base64, found one that is cut off", param) from exc


def decode(data: bytes, max_pixels: int, *, param: str) -> Image.Image:
    """Return a file's first picture as RGB, upright and on white; raises InvalidRequest."""
    try:
        head = read_head(data)
    except HeadRefused as exc:
        raise _refused(str(exc), param) from exc
    if head is None:
        raise _refused("expected a PNG, JPEG, WEBP or GIF file, found something else", param)
    _check_size(head.width, head.height, max_pixels, param=param)
    with _blamed_on_the_picture(param), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(io.BytesIO(data), formats=[head.kind]) as image:
            _check_same_size(image, head, param)
            image.load()
            _check_same_size(image, head, param)
            return _on_white(_upright(image))


def _check_size(width: int, height: int, max_pixels: int, *, param: str) -> None:
    short, long = sorted((width, height))
    if short < 1:
        raise _refused(f"expected a picture with pixels, found one of {width} x {height}", param)
    if width * height > max_pixels:
        raise _refused(f"expected a picture of at most {max_pixels} pixels, found {width} x {height}", param)
    if long > MAX_SIDE:
        raise _refused(f"expected a picture with sides of at most {MAX_SIDE} pixels, found {width} x {height}", param)
    if long > short * MAX_RATIO:
        raise _refused(
            f"expected a picture whose longer side is at most {MAX_RATIO} times the shorter, found {width} x {height}",
            param,
        )


def _check_same_size(image: Image.Image, head: PictureHead, param: str) -> None:
    if image.size != (head.width, head.height):
        raise _refused(_OTHER_SIZE, param)


def _upright(image: Image.Image) -> Image.Image:
    if sum(len(image.info.get(name) or "") for name in _NOTES) > _MOST_NOTES:
        return image
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation)
    except _DECODER_FAILURES:  # notes that cannot be read say nothing of the picture
        return image
    turn = _UPRIGHT.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def _on_white(image: Image.Image) -> Image.Image:
    """Return a picture as RGB, what is transparent in it on white."""
    transparency = image.info.get("transparency")
    if image.mode.startswith("I;16"):  # Pillow would make white of all that is brighter than 255 of 65,535
        wide = np.asarray(image)
        grey = np.where(wide == transparency, 255, wide >> 8)
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if "A" in image.getbands() or transparency is not None:
        clear = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, _WHITE), clear)
    return image.convert("RGB")


@contextmanager
def _blamed_on_the_picture(param: str) -> Iterator[None]:
    try:
        yield
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as exc:
        raise _refused(_OTHER_SIZE, param) from exc
    except _DECODER_FAILURES as exc:
        raise _refused(DAMAGED, param) from exc


def _refused(message: str, param: str) -> InvalidRequest:
    return InvalidRequest(message, param=param, code="invalid_value")
