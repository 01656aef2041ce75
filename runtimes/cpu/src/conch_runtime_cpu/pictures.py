"""Checks the tensors of a request's pictures against its prompt and its model, and takes them apart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch_contracts.dialects import tokens as dialect
from conch_runtime_cpu.errors import UnservableRequest

TENSORS = dialect.IMAGES
PictureTensors = Mapping[str, NDArray[np.generic]]
"""Those of a request that it has, by name."""
NO_PICTURES: PictureTensors = {}
_CHANNELS = 3
_DTYPES = {dialect.IMAGE_PIXELS: np.uint8, dialect.IMAGE_SHAPES: np.int32, dialect.IMAGE_SPANS: np.int32}
_DIMENSIONS = {
    dialect.IMAGE_PIXELS: (-1,),
    dialect.IMAGE_SHAPES: (-1, _CHANNELS),
    dialect.IMAGE_SPANS: (-1, 2),
    dialect.IMAGE_HASHES: (-1,),
}


@dataclass(frozen=True, slots=True)
class PictureShape:
    """What every picture of a model is like."""

    side: int
    """Pixels in height and in width."""
    features: int
    """How many ids stand for it."""
    image_token: int
    """Which id."""


@dataclass(frozen=True, slots=True)
class ShownPicture:
    """One picture of a prompt."""

    pixels: NDArray[np.uint8]
    """[height, width, 3], in memory of its own."""
    start: int
    """Where its ids begin."""
    digest: bytes
    """Equal ones have equal features."""


def parse_pictures(
    tensors: PictureTensors, prompt: NDArray[np.int32], shape: PictureShape | None
) -> tuple[ShownPicture, ...]:
    """Return a prompt's pictures in order; raises UnservableRequest, naming the tensor that is wrong."""
    if not tensors:
        return ()
    if shape is None:
        raise UnservableRequest(f"{next(iter(tensors))}: this model sees no pictures")
    _check_tensors(tensors)
    pixels, shapes, spans, hashes = (tensors[name] for name in TENSORS)
    _check_shapes(pixels, shapes, shape)
    _check_spans(spans.tolist(), prompt, shape)
    digests = [_digest(index, value) for index, value in enumerate(hashes.tolist())]
    found = pixels.astype(np.uint8, copy=True).reshape(-1, shape.side, shape.side, _CHANNELS)
    starts = spans[:, 0].tolist()
    return tuple(ShownPicture(*one) for one in zip(found, starts, digests, strict=True))


def _check_tensors(tensors: PictureTensors) -> None:
    for name in TENSORS:
        if name not in tensors:
            raise UnservableRequest(f"{name}: missing; pictures need {', '.join(TENSORS)}")
    for name, kind in _DTYPES.items():
        if tensors[name].dtype != kind:
            raise UnservableRequest(f"{name}: must be {np.dtype(kind).name}; found {tensors[name].dtype.name}")
    for name, expected in _DIMENSIONS.items():
        found = tensors[name].shape
        if len(found) != len(expected) or (len(expected) == 2 and found[1] != expected[1]):
            wanted = ", ".join(map(str, expected))
            raise UnservableRequest(f"{name}: must have the shape [{wanted}]; found {list(found)}")
    count = len(tensors[dialect.IMAGE_SHAPES])
    for name in (dialect.IMAGE_SPANS, dialect.IMAGE_HASHES):
        if len(tensors[name]) != count:
            raise UnservableRequest(f"{name}: {dialect.IMAGE_SHAPES} has {count} pictures; found {len(tensors[name])}")


def _check_shapes(pixels: NDArray[np.generic], shapes: NDArray[np.generic], shape: PictureShape) -> None:
    wanted = [shape.side, shape.side, _CHANNELS]
    for index, found in enumerate(shapes.tolist()):
        if found != wanted:
            raise UnservableRequest(f"{dialect.IMAGE_SHAPES}: picture {index} must be {wanted}; found {found}")
    expected = len(shapes) * shape.side * shape.side * _CHANNELS
    if len(pixels) != expected:
        raise UnservableRequest(
            f"{dialect.IMAGE_PIXELS}: {len(shapes)} pictures have {expected} bytes; found {len(pixels)}"
        )


def _check_spans(spans: list[list[int]], prompt: NDArray[np.int32], shape: PictureShape) -> None:
    fault = next(_faults(spans, prompt, shape), None)
    if fault is not None:
        raise UnservableRequest(f"{dialect.IMAGE_SPANS}: {fault}")


def _faults(spans: list[list[int]], prompt: NDArray[np.int32], shape: PictureShape) -> Iterator[str]:
    end = 0
    for index, (start, length) in enumerate(spans):
        if length != shape.features:
            yield f"picture {index} must have {shape.features} ids; found {length}"
        if start < end:
            yield f"picture {index} begins at {start}, before the end of what stands before it at {end}"
        end = start + length
        if end > len(prompt):
            yield f"picture {index} ends at {end}, and the prompt has {len(prompt)} ids"
        if (prompt[start:end] != shape.image_token).any():
            yield f"every id of picture {index} must be {shape.image_token}, the image token"


def _digest(index: int, value: object) -> bytes:
    if not isinstance(value, bytes) or not value:
        raise UnservableRequest(f"{dialect.IMAGE_HASHES}: picture {index} has none")
    return value
