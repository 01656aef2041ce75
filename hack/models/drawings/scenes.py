"""What a picture holds: one thing, several alike, or one on each side; some combinations are kept out of training."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from models.drawings.outlines import DIGITS, SHAPES

SIDE = 64
"""Of a picture, in pixels; things are placed by it, and drawn larger where asked."""
COLORS = {
    "red": (215, 35, 40),
    "green": (35, 155, 60),
    "blue": (45, 80, 220),
    "yellow": (245, 210, 30),
    "purple": (145, 50, 175),
    "orange": (245, 130, 25),
}
_MOST = 5


class Layout(StrEnum):
    """How a picture is made up."""

    DIGIT = "digit"
    SHAPE = "shape"
    COUNT = "count"
    PAIR = "pair"


@dataclass(frozen=True, slots=True)
class Thing:
    """A shape or digit in one colour; place and size in pixels of a picture of SIDE."""

    kind: str
    color: str
    x: float
    y: float
    radius: float


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture's things, from left to right where there are two sides, on a grey of 0 to 255."""

    layout: Layout
    things: tuple[Thing, ...]
    ground: int

    @property
    def first(self) -> Thing:
        """Return the only thing, one of those that are alike, or the one on the left."""
        return self.things[0]

    @property
    def held_out(self) -> bool:
        """Return whether training never sees such a combination."""
        counted = self.layout is Layout.COUNT and held_out_count(len(self.things), self.first.kind)
        return counted or any(held_out_color(each.kind, each.color) for each in self.things)


def held_out_color(kind: str, color: str) -> bool:
    """Return whether no picture of training shows this kind in this colour: one colour of six for each kind."""
    place = list(COLORS).index(color)
    return place == ((SHAPES.index(kind) + 2) if kind in SHAPES else int(kind) + 3) % len(COLORS)


def held_out_count(count: int, kind: str) -> bool:
    """Return whether no picture of training shows so many of this kind: one number of four for each kind."""
    return count == 2 + (SHAPES.index(kind) + 1) % (_MOST - 1)


def draw_scene(random: Random, layout: Layout | None = None, *, held_out: bool = False) -> Scene:
    """Return a picture that training may see, or one that it may not."""
    chosen = layout or random.choices(list(Layout), (3, 3, 3, 3))[0]
    while True:
        made = _LAYOUTS[chosen](random)
        if made.held_out is held_out:
            return made


def draw_single(random: Random) -> Scene:
    """Return a picture of one thing."""
    return draw_scene(random, random.choice((Layout.DIGIT, Layout.SHAPE)))


def _one(random: Random, kind: str) -> tuple[Thing, ...]:
    radius = random.uniform(19, 25)
    x, y = (SIDE / 2 + random.uniform(-3, 3) for _ in range(2))
    return (Thing(kind, _color(random), x, y, radius),)


def _digit(random: Random) -> Scene:
    return Scene(Layout.DIGIT, _one(random, random.choice(DIGITS)), _ground(random))


def _shape(random: Random) -> Scene:
    return Scene(Layout.SHAPE, _one(random, random.choice(SHAPES)), _ground(random))


def _count(random: Random) -> Scene:
    kind, color, radius = random.choice(SHAPES), _color(random), random.uniform(7.5, 9)
    places = random.sample([(x, y) for x in range(3) for y in range(3)], random.randint(2, _MOST))
    things = tuple(
        Thing(kind, color, 11 + 21 * x + random.uniform(-1, 1), 11 + 21 * y + random.uniform(-1, 1), radius)
        for x, y in places
    )
    return Scene(Layout.COUNT, things, _ground(random))


def _pair(random: Random) -> Scene:
    kinds, colors = random.sample(SHAPES, 2), random.sample(list(COLORS), 2)
    left, right = (
        Thing(kind, color, middle + random.uniform(-2, 2), 32 + random.uniform(-6, 6), random.uniform(10, 13))
        for kind, color, middle in zip(kinds, colors, (16.5, 47.5), strict=True)
    )
    return Scene(Layout.PAIR, (left, right), _ground(random))


def _color(random: Random) -> str:
    return random.choice(list(COLORS))


def _ground(random: Random) -> int:
    return random.choice((255, 255, random.randint(225, 255), random.randint(0, 30)))


_LAYOUTS: dict[Layout, Callable[[Random], Scene]] = {
    Layout.DIGIT: _digit,
    Layout.SHAPE: _shape,
    Layout.COUNT: _count,
    Layout.PAIR: _pair,
}
