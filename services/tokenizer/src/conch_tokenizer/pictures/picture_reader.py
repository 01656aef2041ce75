"""Makes of pictures what an engine takes, and remembers it: in the next turn of a chat the same ones come again."""

import hashlib
import io
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from PIL import Image

from conch_contracts.messages.generation import PictureForm
from conch_contracts.messages.tokenization import Picture, PictureLimits
from conch_kit.errors import InvalidRequest
from conch_tokenizer.pictures.model_pictures import PictureFamily, Pixels
from conch_tokenizer.pictures.picture_files import decode, file_bytes

MOST_BYTES: Final = 40 * 1024**2
"""Of all pictures of a request as an engine takes them; as base64 a gateway reads no more of one answer."""
KEPT_BYTES: Final = 64 * 1024**2
_FAST: Final = 1
"""Of zlib's levels: an engine reads the file once, on the same network."""


class SeeingModel(Protocol):
    """What must be known of a model."""

    @property
    def family(self) -> PictureFamily | None:
        """What it makes of a picture; None: only its engine knows."""

    @property
    def settings(self) -> str:
        """Equal ones make the same of a picture."""


@dataclass(frozen=True, slots=True)
class PictureOrder:
    """What a request wants of its pictures."""

    limits: PictureLimits | None
    """None: the model sees no pictures."""
    form: PictureForm | None
    """None: the one that tells how many ids a picture has, where that is known."""
    scope: str = ""


NO_PICTURES: Final = PictureOrder(limits=None, form=None)


@dataclass(frozen=True, slots=True)
class ReadPicture:
    """One picture, ready for an engine."""

    data: bytes
    height: int
    width: int
    length: int
    digest: str


class PictureReader:
    """Reads pictures; what it has read last it has at hand."""

    def __init__(self, announce: Callable[[int], None] = lambda _: None, *, kept_bytes: int = KEPT_BYTES) -> None:
        """Make one; `announce` is called with a picture's place in its request before it is decoded."""
        self._announce = announce
        self._kept_bytes = kept_bytes
        self._size = 0
        self._kept: OrderedDict[bytes, ReadPicture] = OrderedDict()

    def read(self, index: int, picture: Picture, model: SeeingModel, order: PictureOrder) -> ReadPicture:
        """Return the request's picture of this index as the model's engine takes it; raises InvalidRequest."""
        if order.limits is None:
            raise no_pictures(picture)
        data = file_bytes(picture.data, order.limits.max_bytes, param=picture.param)
        key = _key(data, model, order)
        if (known := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return known
        self._announce(index)
        try:
            image = decode(data, order.limits.max_pixels, param=picture.param)
            read = _ready(image, model, order, param=picture.param)
        except MemoryError as exc:
            message = "this picture needs more memory than a picture may take; make it smaller"
            raise InvalidRequest(message, param=picture.param, code="invalid_value") from exc
        self._keep(key, read)
        return read

    def _keep(self, key: bytes, read: ReadPicture) -> None:
        if len(read.data) > self._kept_bytes:
            return
        self._kept[key] = read
        self._size += len(read.data)
        while self._size > self._kept_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._size -= len(dropped.data)


def no_pictures(picture: Picture) -> InvalidRequest:
    """Return what is said of a picture to a model that sees none."""
    return InvalidRequest("this model sees no pictures", param=picture.param, code="unsupported_parameter")


def _key(data: bytes, model: SeeingModel, order: PictureOrder) -> bytes:
    """Return what must be the same for a picture to be the same: limits too, because one may be too large elsewhere."""
    max_pixels = 0 if order.limits is None else order.limits.max_pixels
    told = f"{model.settings} {order.form} {max_pixels} {order.scope}"
    return hashlib.sha256(hashlib.sha256(data).digest() + told.encode()).digest()


def _ready(image: Image.Image, model: SeeingModel, order: PictureOrder, *, param: str) -> ReadPicture:
    if order.form is PictureForm.PNG or (order.form is None and model.family is None):
        height, width = image.height, image.width
        digest = _digest(order.scope, Pixels(image.tobytes(), height, width))
        return ReadPicture(data=_as_png(image), height=height, width=width, length=1, digest=digest)
    if model.family is None:
        raise InvalidRequest(
            "pictures cannot be made ready for this model: what it makes of them is not known here",
            param=param,
            code="unsupported_parameter",
        )
    pixels = model.family.pixels(image)
    return ReadPicture(
        data=pixels.data,
        height=pixels.height,
        width=pixels.width,
        length=model.family.length(pixels.height, pixels.width),
        digest=_digest(order.scope, pixels),
    )


def _digest(scope: str, pixels: Pixels) -> str:
    """Return SHA-256 over scope, size and pixels; the scope's length keeps its end from being taken for a size."""
    told = scope.encode()
    found = hashlib.sha256(f"{len(told)} ".encode() + told + f" {pixels.height} {pixels.width} ".encode())
    found.update(pixels.data)
    return found.hexdigest()


def _as_png(image: Image.Image) -> bytes:
    image.info.clear()  # profiles and the transparency that is gone would be written too
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=_FAST)
    return buffer.getvalue()
