"""Turns pictures into features of a language model, and keeps those of the last ones.

The scheduler decides when, because one picture takes as long as many tokens.
"""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conch_runtime_cpu.engine.onnx_session import half_of_the_cores, open_session
from conch_runtime_cpu.graphs.vision_architecture import VisionArchitecture
from conch_runtime_cpu.graphs.vision_graph import FEATURES, PIXELS
from conch_runtime_cpu.pictures import PictureShape, ShownPicture

Features = NDArray[np.float32]
"""[features, width]"""
Pixels = NDArray[np.uint8]
VisionCounter = Callable[[], Callable[[], None]]
"""Makes what is called each time a picture was computed."""


def uncounted() -> Callable[[], None]:
    """Return what counts nothing."""
    return lambda: None


def picture_shape(vision: VisionArchitecture) -> PictureShape:
    """Return what every picture of a model is like."""
    return PictureShape(vision.side, vision.features, vision.image_token)


class OnnxVision:
    """A loaded vision tower with its projector."""

    def __init__(self, model: Path) -> None:
        self._session = open_session(model, threads=half_of_the_cores())

    def __call__(self, pixels: Pixels) -> Features:
        """Return the features of one picture."""
        features: Features = self._session.run([FEATURES], {PIXELS: pixels})[0]
        return features

    def warm_up(self) -> int:
        """Compute once, so that a graph that cannot run fails before the first request; return the features' width."""
        (pixels,) = self._session.get_inputs()
        return self(np.zeros(pixels.shape, np.uint8)).shape[1]


class SeenPictures:
    """The features of the pictures that were asked for last, in bounded memory."""

    def __init__(self, compute: Callable[[Pixels], Features], most_bytes: int, computed: Callable[[], None]) -> None:
        self._compute = compute
        self._left_bytes = most_bytes
        self._computed = computed
        self._features: OrderedDict[bytes, Features] = OrderedDict()

    def features(self, picture: ShownPicture) -> Features:
        """Return a picture's features, which are computed where they are not there."""
        found = self.find(picture)
        return self.look(picture) if found is None else found

    def find(self, picture: ShownPicture) -> Features | None:
        """Return a picture's features if they are there."""
        found = self._features.get(picture.digest)
        if found is not None:
            self._features.move_to_end(picture.digest)
        return found

    def look(self, picture: ShownPicture) -> Features:
        """Compute a picture's features, and keep them while they are among the last ones."""
        features = self._compute(picture.pixels)
        self._computed()
        self._features[picture.digest] = features
        self._left_bytes -= features.nbytes
        while self._left_bytes < 0 and self._features:
            _, oldest = self._features.popitem(last=False)
            self._left_bytes += oldest.nbytes
        return features
