"""The things that are drawn, as distances to their edges: five shapes and ten digits, of strokes of their own."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Point = tuple[float, float]

SHAPES = ("circle", "square", "triangle", "star", "cross")
DIGITS = tuple(str(each) for each in range(10))
KINDS = (*SHAPES, *DIGITS)

EXTENT = 1.4
"""A table reaches so far from the middle; a thing about 1."""
CELLS = 140
_STROKE = 0.17


def _arc(middle: Point, radii: Point, first: float, last: float, steps: int = 16) -> list[Point]:
    """Return points of an ellipse; angles in degrees, clockwise on the screen, 0 is to the right."""
    angles = (math.radians(first + (last - first) * each / steps) for each in range(steps + 1))
    return [(middle[0] + radii[0] * math.cos(each), middle[1] + radii[1] * math.sin(each)) for each in angles]


def _star() -> list[Point]:
    corners = ((1.05 if each % 2 == 0 else 0.42, math.radians(-90 + 36 * each)) for each in range(10))
    return [(radius * math.cos(angle), 0.08 + radius * math.sin(angle)) for radius, angle in corners]


_POLYGONS: dict[str, list[Point]] = {
    "circle": _arc((0, 0), (0.92, 0.92), 0, 360, 48),
    "square": [(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)],
    "triangle": [(0, -0.95), (1.0, 0.8), (-1.0, 0.8)],
    "star": _star(),
    "cross": [
        *((-0.32, -0.95), (0.32, -0.95), (0.32, -0.32), (0.95, -0.32), (0.95, 0.32), (0.32, 0.32)),
        *((0.32, 0.95), (-0.32, 0.95), (-0.32, 0.32), (-0.95, 0.32), (-0.95, -0.32), (-0.32, -0.32)),
    ],
}
_SIX = [[(0.35, -0.85), *_arc((0.05, 0.35), (0.52, 1.0), -110, -180, 8)], _arc((0, 0.35), (0.47, 0.47), 0, 360)]
_STROKES: dict[str, list[list[Point]]] = {
    "0": [_arc((0, 0), (0.5, 0.82), 0, 360, 24)],
    "1": [[(-0.35, -0.5), (0.05, -0.82), (0.05, 0.82)]],
    "2": [[*_arc((0, -0.38), (0.46, 0.44), -170, 30), (-0.48, 0.82), (0.5, 0.82)]],
    "3": [_arc((-0.05, -0.42), (0.45, 0.4), -150, 90), _arc((-0.05, 0.4), (0.52, 0.42), -90, 150)],
    "4": [[(0.22, 0.82), (0.22, -0.82), (-0.52, 0.35), (0.52, 0.35)]],
    "5": [[(0.45, -0.82), (-0.36, -0.82), (-0.42, -0.1), *_arc((-0.03, 0.32), (0.5, 0.5), -125, 140)]],
    "6": _SIX,
    "7": [[(-0.5, -0.82), (0.5, -0.82), (-0.12, 0.82)]],
    "8": [_arc((0, -0.42), (0.38, 0.4), 0, 360), _arc((0, 0.42), (0.47, 0.42), 0, 360)],
    "9": [[(-x, -y) for x, y in line] for line in _SIX],
}


def distance_tables() -> Floats:
    """Return for each kind its distances on a square grid from -EXTENT to EXTENT: negative within the thing."""
    edge = np.linspace(-EXTENT, EXTENT, CELLS + 1, dtype=np.float32)
    across, down = np.meshgrid(edge, edge)
    tables = []
    for kind in KINDS:
        if kind in _POLYGONS:
            corners = _POLYGONS[kind]
            outside = _distance([*corners, corners[0]], across, down)
            tables.append(np.where(_inside(corners, across, down), -outside, outside))
        else:
            tables.append(np.minimum.reduce([_distance(line, across, down) for line in _STROKES[kind]]) - _STROKE)
    found: Floats = np.stack(tables).astype(np.float32)
    return found


def _distance(line: Sequence[Point], across: Floats, down: Floats) -> Floats:
    """Return how far each place is from a line of several pieces."""
    found = np.full_like(across, np.inf)
    for (x1, y1), (x2, y2) in pairwise(line):
        dx, dy = x2 - x1, y2 - y1
        along = np.clip(((across - x1) * dx + (down - y1) * dy) / max(dx * dx + dy * dy, 1e-9), 0, 1)
        found = np.minimum(found, np.hypot(across - x1 - along * dx, down - y1 - along * dy))
    return found


def _inside(corners: Sequence[Point], across: Floats, down: Floats) -> NDArray[np.bool_]:
    """Return which places a polygon holds: those from which a ray meets an odd number of its sides."""
    found = np.zeros(across.shape, bool)
    for (x1, y1), (x2, y2) in zip(corners, [*corners[1:], corners[0]], strict=True):
        if y1 != y2:
            meets = ((y1 > down) != (y2 > down)) & (across < x1 + (down - y1) * (x2 - x1) / (y2 - y1))
            found ^= meets
    return found
