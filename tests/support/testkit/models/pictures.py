"""Small pictures as files, in the forms in which clients send them."""

import base64
import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image

SHAPE = (60, 90)
"""Height and width of a picture that nothing else is said of."""


def picture(height: int = SHAPE[0], width: int = SHAPE[1], *, seed: int = 0) -> Image.Image:
    """Return coarse colours at random, which all formats keep apart and no turn leaves as they are."""
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 7, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def see_through(mode: str) -> Image.Image:
    """Return a picture of a mode with alpha, which grows from left to right."""
    height, width = SHAPE
    alpha = Image.fromarray(np.tile(np.linspace(0, 255, width, dtype=np.uint8), (height, 1)))
    image = picture().convert("L" if mode == "LA" else "RGB")
    image.putalpha(alpha)
    return image


def file_of(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """Return a picture as a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def turned(orientation: int, kind: str = "JPEG") -> bytes:
    """Return a picture as a camera writes it that was held otherwise."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return file_of(picture(), kind, exif=exif)


def forms() -> dict[str, bytes]:
    """Return one picture in each form that is taken, but for those that EXIF turns."""
    image = picture()
    palette = image.quantize(16)
    clear = palette.copy()
    clear.info["transparency"] = 3
    return {
        "png": file_of(image),
        "jpeg": file_of(image, "JPEG"),
        "progressive jpeg": file_of(image, "JPEG", progressive=True),
        "webp": file_of(image, "WEBP"),
        "webp without loss": file_of(image, "WEBP", lossless=True),
        "gif": file_of(palette, "GIF"),
        "moving gif": file_of(palette, "GIF", save_all=True, append_images=[picture(seed=1).quantize(16)]),
        "clear gif": file_of(clear, "GIF"),
        "moving webp": file_of(image, "WEBP", save_all=True, append_images=[picture(seed=1)]),
        "moving png": file_of(image, save_all=True, append_images=[picture(seed=1)]),
        "rgba": file_of(see_through("RGBA")),
        "rgba webp": file_of(see_through("RGBA"), "WEBP", lossless=True),
        "la": file_of(see_through("LA")),
        "palette": file_of(palette),
        "clear palette": file_of(clear),
        "palette with alpha": file_of(palette, transparency=bytes(range(0, 256, 16))),
        "clear colour": file_of(image, transparency=image.getpixel((0, 0))),
        "clear grey": file_of(image.convert("L"), transparency=image.convert("L").getpixel((0, 0))),
        "grey": file_of(image.convert("L")),
        "grey jpeg": file_of(image.convert("L"), "JPEG"),
        "black and white": file_of(image.convert("1")),
        "cmyk jpeg": file_of(image.convert("CMYK"), "JPEG"),
    }


def bomb(height: int, width: int) -> bytes:
    """Return a PNG that is small as a file, and as large as that when it is read."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(1 + width * 3)) for _ in range(height)) + packer.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def base64_of(data: bytes) -> str:
    """Return bytes as a request carries them."""
    return base64.b64encode(data).decode()
