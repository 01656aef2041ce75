"""A sheet that SVG is drawn on: boxes, texts and arrows, in the few colours that the pictures have."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from itertools import pairwise
from math import atan2, cos, hypot, sin

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
LINE = 16.0
"""From one line of text to the next."""
_CHARACTER = 6.6
"""How wide a character of the plain text is at most, about."""
_NARROW = 6.0
"""How wide it is at least; text that is too long even so does not fit."""
_INK = "#1f2328"
_GROUND = "#fbfcfd"
_HEAD = 7.0


class Tone(StrEnum):
    """What a box stands for, shown as its colour."""

    OURS = "ours"
    """A process or a step of Conch."""
    ENGINE = "engine"
    """What runs models."""
    OUTSIDE = "outside"
    """What belongs to somebody else."""
    STORE = "store"
    """What is kept."""
    GOOD = "good"
    BAD = "bad"
    PALE = "pale"
    """What waits or does little."""


_COLOURS = {
    Tone.OURS: ("#ddf0ff", "#0969da"),
    Tone.ENGINE: ("#e9e2fb", "#6639ba"),
    Tone.OUTSIDE: ("#f2f3f5", "#59636e"),
    Tone.STORE: ("#fff3cf", "#9a6700"),
    Tone.GOOD: ("#d9f5e1", "#1a7f37"),
    Tone.BAD: ("#ffe3e0", "#cf222e"),
    Tone.PALE: ("#ffffff", "#8c959f"),
}


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle."""

    left: float
    top: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        """Return its centre."""
        return self.left + self.width / 2, self.top + self.height / 2

    def border_towards(self, x: float, y: float) -> tuple[float, float]:
        """Return where a line from the centre to a point leaves the rectangle."""
        middle_x, middle_y = self.middle
        across, down = x - middle_x, y - middle_y
        scale = min(
            self.width / 2 / abs(across) if across else float("inf"),
            self.height / 2 / abs(down) if down else float("inf"),
        )
        return middle_x + across * scale, middle_y + down * scale


@dataclass(slots=True)
class Canvas:
    """The elements of one picture, in the order in which they are painted."""

    about: str
    """What the picture shows, for those who cannot see it."""
    width: float
    height: float
    _elements: list[str] = field(default_factory=list)
    _labels: list[str] = field(default_factory=list)
    """Texts on lines, painted last so that no line crosses them."""

    def box(self, area: Area, tone: Tone, lines: Sequence[str] = (), *, round_by: float = 6) -> None:
        """Draw a box with its first line in bold; raises ValueError when a line does not fit."""
        too_long = [line for line in lines if len(line) * _NARROW > area.width]
        if too_long:
            raise ValueError(f"A box of a picture is too narrow for {too_long[0]!r}: shorten it, or widen the box.")
        fill, stroke = _COLOURS[tone]
        self._elements.append(
            f'<rect x="{area.left:g}" y="{area.top:g}" width="{area.width:g}" height="{area.height:g}"'
            f' rx="{round_by:g}" fill="{fill}" stroke="{stroke}" stroke-width="1.4"/>'
        )
        x, y = area.middle
        top = y - (len(lines) - 1) * LINE / 2
        for number, line in enumerate(lines):
            self.text(x, top + number * LINE, line, bold=number == 0)

    def zone(self, area: Area, name: str) -> None:
        """Draw a dashed border around what belongs together, with its name in the corner."""
        self._elements.append(
            f'<rect x="{area.left:g}" y="{area.top:g}" width="{area.width:g}" height="{area.height:g}" rx="10" '
            'fill="none" stroke="#8c959f" stroke-width="1.4" stroke-dasharray="6 4"/>'
        )
        self.text(area.left + 12, area.top + 16, name, anchor="start", colour="#59636e", bold=True)

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "middle", bold: bool = False, colour: str = _INK
    ) -> None:
        """Write one line, vertically centred on `y`."""
        self._elements.append(_text(x, y, words, anchor=anchor, bold=bold, colour=colour))

    def line(self, points: Sequence[tuple[float, float]], *, dashed: bool = False) -> None:
        """Draw a thin line without a head."""
        self._elements.append(_path(points, dashed=dashed, colour="#8c959f", width=1))

    def curve(self, points: Sequence[tuple[float, float]], tone: Tone) -> None:
        """Draw a line that shows how something goes, in a tone's strong colour."""
        self._elements.append(_path(points, dashed=False, colour=_COLOURS[tone][1], width=1.6))

    def arrow(
        self, points: Sequence[tuple[float, float]], words: str = "", *, dashed: bool = False, both: bool = False
    ) -> None:
        """Draw a line with a head at its end, and words on the middle of its longest part."""
        self._elements.append(_path(points, dashed=dashed, colour=_INK, width=1.3))
        self._elements.append(_head(points[-2], points[-1]))
        if both:
            self._elements.append(_head(points[1], points[0]))
        if words:
            start, end = max(pairwise(points), key=lambda part: _length(*part))
            self.label((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, words)

    def label(self, x: float, y: float, words: str) -> None:
        """Write words on a line, with the ground behind them; `|` begins another line."""
        lines = words.split("|")
        width, height = max(map(len, lines)) * _CHARACTER + 6, len(lines) * LINE
        left, top = x - width / 2, y - height / 2
        self._labels.append(f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" fill="{_GROUND}"/>')
        for number, line in enumerate(lines):
            self._labels.append(_text(x, top + LINE * (number + 0.5), line))

    def svg(self) -> str:
        """Return the finished picture."""
        body = "\n".join([*self._elements, *self._labels])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" height="{self.height:g}" '
            f'viewBox="0 0 {self.width:g} {self.height:g}" font-family="{FONT}" font-size="12" role="img">\n'
            f"<title>{escape(self.about)}</title>\n"
            f'<rect x="0.5" y="0.5" width="{self.width - 1:g}" height="{self.height - 1:g}" rx="8" fill="{_GROUND}" '
            'stroke="#d0d7de"/>\n'
            f"{body}\n</svg>\n"
        )


def _text(x: float, y: float, words: str, *, anchor: str = "middle", bold: bool = False, colour: str = _INK) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" dy="0.36em" text-anchor="{anchor}" fill="{colour}"{weight}>{escape(words)}</text>'
    )


def _path(points: Sequence[tuple[float, float]], *, dashed: bool, colour: str, width: float) -> str:
    way = " L ".join(f"{x:g} {y:g}" for x, y in points)
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<path d="M {way}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes}/>'


def _head(start: tuple[float, float], end: tuple[float, float]) -> str:
    angle = atan2(end[1] - start[1], end[0] - start[0])
    sides = [
        f"{end[0] - _HEAD * cos(angle + turn):.1f} {end[1] - _HEAD * sin(angle + turn):.1f}" for turn in (-0.45, 0.45)
    ]
    return f'<path d="M {end[0]:.1f} {end[1]:.1f} L {sides[0]} L {sides[1]} Z" fill="{_INK}"/>'


def _length(start: tuple[float, float], end: tuple[float, float]) -> float:
    return hypot(end[0] - start[0], end[1] - start[1])
