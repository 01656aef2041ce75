"""What tiny-clip is known to answer, as its reference implementation gave it."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[4] / "examples" / "tiny-clip"


@dataclass(frozen=True)
class ClipPicture:
    """One file, and what is made of it."""

    file: Path
    pixels: NDArray[np.uint8]
    """[height, width, 3]"""
    vector: NDArray[np.float32]


@dataclass(frozen=True)
class ClipText:
    """One text, and its ids."""

    text: str
    ids: list[int]


@dataclass(frozen=True)
class ClipGolden:
    """All of it."""

    pictures: list[ClipPicture]
    texts: list[ClipText]
    text_vectors: NDArray[np.float32]
    """One row for each text."""
    cosines: list[list[float]]
    """A row for each picture, a column for each text."""


@cache
def load() -> ClipGolden:
    """Read it from the example's folder."""
    golden: dict[str, Any] = json.loads((FOLDER / "golden.json").read_text())
    with np.load(FOLDER / "golden.npz") as arrays:
        pictures = [
            ClipPicture(FOLDER / each["file"], arrays[each["pixels"]], arrays[each["vector"]])
            for each in golden["files"]
        ]
        return ClipGolden(pictures, [ClipText(**each) for each in golden["texts"]], arrays["texts"], golden["cosines"])


def as_values(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return a picture as the model's own settings normalise it, [3, height, width]."""
    settings = json.loads((FOLDER / "preprocessor_config.json").read_text())
    values = pixels.astype(np.float64) * settings["rescale_factor"]
    values = (values - settings["image_mean"]) / settings["image_std"]
    return np.moveaxis(values, -1, 0).astype(np.float32)


def normalisation() -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Return by how much bytes of each channel are multiplied, and what is added then."""
    settings = json.loads((FOLDER / "preprocessor_config.json").read_text())
    mean, std = settings["image_mean"], settings["image_std"]
    red, green, blue = (settings["rescale_factor"] / one for one in std)
    of_red, of_green, of_blue = (-middle / one for middle, one in zip(mean, std, strict=True))
    return (red, green, blue), (of_red, of_green, of_blue)


def normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors with length 1."""
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit
