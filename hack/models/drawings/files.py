"""Pictures as files, one of them in every form that a client may send it in."""

from dataclasses import dataclass
from io import BytesIO
from typing import Any

from PIL import Image

from models.drawings.pictures import Pixels

_TURNED = 6
"""What EXIF calls a picture that is to be turned a quarter to the right."""
_ORIENTATION = 0x0112
_COLORS = 48
_WHITE = (255, 255, 255)


@dataclass(frozen=True, slots=True)
class PictureFile:
    """A file; `note` says what is special about it."""

    name: str
    content: bytes
    note: str = ""


def few_colors(pixels: Pixels) -> Image.Image:
    """Return a picture whose colours all fit into a palette."""
    return Image.fromarray(pixels).quantize(_COLORS, dither=Image.Dither.NONE).convert("RGB")


def as_png(name: str, picture: Image.Image, note: str = "") -> PictureFile:
    """Return a plain file of a picture."""
    return PictureFile(f"{name}.png", _saved(picture, "PNG", optimize=True), note)


def twins(name: str, picture: Image.Image, other: Image.Image) -> list[PictureFile]:
    """Return the same picture in other forms; `other` is what follows it where a file holds several."""
    palette = picture.quantize(_COLORS, dither=Image.Dither.NONE)
    exif = Image.Exif()
    exif[_ORIENTATION] = _TURNED
    turned = picture.transpose(Image.Transpose.ROTATE_90)
    return [
        PictureFile(f"{name}.jpg", _saved(picture, "JPEG", quality=92), "JPEG"),
        PictureFile(f"{name}.webp", _saved(picture, "WEBP", lossless=True), "WEBP without loss"),
        PictureFile(
            f"{name}_turned.jpg",
            _saved(turned, "JPEG", quality=92, exif=exif),
            "JPEG that lies on its side; EXIF says so",
        ),
        PictureFile(f"{name}_alpha.png", _saved(_see_through(picture), "PNG"), "RGBA: black, transparent for white"),
        PictureFile(f"{name}_palette.png", _saved(palette, "PNG"), "PNG with a palette"),
        PictureFile(
            f"{name}.gif",
            _saved(palette, "GIF", save_all=True, append_images=[other], duration=500, loop=0),
            "GIF of two frames; the first counts",
        ),
    ]


def _see_through(picture: Image.Image) -> Image.Image:
    made = picture.convert("RGBA")
    pixels = made.load()
    if pixels is None:
        raise SystemExit("Pillow gave no access to pixels")
    for x in range(made.width):
        for y in range(made.height):
            if picture.getpixel((x, y)) == _WHITE:
                pixels[x, y] = (0, 0, 0, 0)
    return made


def _saved(picture: Image.Image, form: str, **options: Any) -> bytes:
    made = BytesIO()
    picture.save(made, form, **options)
    return made.getvalue()
