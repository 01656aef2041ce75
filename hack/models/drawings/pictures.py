"""Scenes as pixels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.drawings.outlines import CELLS, EXTENT, KINDS, distance_tables
from models.drawings.scenes import COLORS, SIDE, Scene

Pixels = NDArray[np.uint8]


class Painter:
    """Draws scenes, many at once."""

    def __init__(self) -> None:
        self._tables = distance_tables()

    def paint(self, scenes: Sequence[Scene], side: int = SIDE) -> Pixels:
        """Return clean pictures, [scenes, side, side, 3]."""
        return _rounded(self._paint(scenes, side, np.full(len(scenes), 1.0, np.float32), None))

    def paint_roughly(self, scenes: Sequence[Scene], seed: int) -> Pixels:
        """Return pictures as training sees them: colours a little off, edges softer or sharper, some noise."""
        random = np.random.default_rng(seed)
        blur = random.uniform(0.8, 2.0, len(scenes)).astype(np.float32)
        made = self._paint(scenes, SIDE, blur, random)
        noise = random.standard_normal(made.shape, np.float32) * random.uniform(0, 5, (len(scenes), 1, 1, 1))
        return _rounded(made + noise)

    def _paint(
        self, scenes: Sequence[Scene], side: int, blur: NDArray[np.float32], random: np.random.Generator | None
    ) -> NDArray[np.float32]:
        grounds = np.array([each.ground for each in scenes], np.float32)
        made = np.broadcast_to(grounds[:, None, None, None], (len(scenes), side, side, 3)).astype(np.float32)
        things = [(at, thing) for at, scene in enumerate(scenes) for thing in scene.things]
        kinds = np.array([KINDS.index(thing.kind) for _, thing in things])
        middles = np.array([(thing.x, thing.y) for _, thing in things], np.float32) * side / SIDE
        radii = np.array([thing.radius for _, thing in things], np.float32) * side / SIDE
        covered = self._covered(kinds, middles, radii, blur[[at for at, _ in things]], side)
        for (at, thing), cover in zip(things, covered, strict=True):
            color = np.array(COLORS[thing.color], np.float32)
            if random is not None:
                color = color + random.uniform(-14, 14, 3).astype(np.float32)
            made[at] += cover[..., None] * (color - made[at])
        return made

    def _covered(
        self,
        kinds: NDArray[np.int64],
        middles: NDArray[np.float32],
        radii: NDArray[np.float32],
        blur: NDArray[np.float32],
        side: int,
    ) -> NDArray[np.float32]:
        """Return how much of each pixel each thing covers."""
        centers = np.arange(side, dtype=np.float32) + 0.5
        cell = CELLS / (2 * EXTENT)
        columns = ((centers[None] - middles[:, :1]) / radii[:, None] + EXTENT) * cell
        rows = ((centers[None] - middles[:, 1:]) / radii[:, None] + EXTENT) * cell
        x, y = (np.clip(each, 0, CELLS - 1e-3) for each in (columns, rows))
        left, top = x.astype(np.int64), y.astype(np.int64)
        right_share, low_share = (x - left)[:, None, :], (y - top)[:, :, None]
        one, left, top = kinds[:, None, None], left[:, None, :], top[:, :, None]
        above = self._tables[one, top, left] * (1 - right_share) + self._tables[one, top, left + 1] * right_share
        below = (
            self._tables[one, top + 1, left] * (1 - right_share) + self._tables[one, top + 1, left + 1] * right_share
        )
        distance = (above * (1 - low_share) + below * low_share) * radii[:, None, None]
        found: NDArray[np.float32] = np.clip(0.5 - distance / blur[:, None, None], 0, 1)
        return found


def _rounded(made: NDArray[np.float32]) -> Pixels:
    pixels: Pixels = np.clip(np.round(made), 0, 255).astype(np.uint8)
    return pixels
