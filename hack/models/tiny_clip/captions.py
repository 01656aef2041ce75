"""What may be said of a picture, and in which words."""

from collections.abc import Iterator
from random import Random

from models.drawings.descriptions import described, kind_named, more_of, named
from models.drawings.outlines import KINDS, SHAPES
from models.drawings.scenes import COLORS, Layout, Scene, Thing, held_out_color

_FORMS = ("{}", "{}", "a picture of {}", "a drawing of {}", "a photo of {}", "there is {}", "this shows {}")
_NUMBERS = ("zero", "one", "two", "three", "four", "five")


def said_of(scene: Scene) -> list[str]:
    """Return what is true of a picture: all of it first, then parts."""
    first = scene.first
    if scene.layout is Layout.COUNT:
        count = len(scene.things)
        parts = [
            f"{count} {more_of(first.kind)}",
            f"{count} {first.color} shapes",
            f"{first.color} {more_of(first.kind)}",
        ]
    elif scene.layout is Layout.PAIR:
        left, right = scene.things
        parts = [
            f"{named(left)} on the left",
            f"{named(right)} on the right",
            f"{kind_named(left)} left of {kind_named(right)}",
        ]
    else:
        parts = [kind_named(first), f"something {first.color}"]
    return [described(scene), *parts]


def in_words(random: Random, said: str) -> str:
    """Return a way to write it."""
    number, _, rest = said.partition(" ")
    if number.isdigit() and random.random() < 0.5:
        said = f"{_NUMBERS[int(number)]} {rest}"
    made = random.choice(_FORMS).format(said)
    made = made[0].upper() + made[1:] if random.random() < 0.3 else made
    return f"{made}." if random.random() < 0.2 else made


def choices(layout: Layout, *, held_out: bool) -> Iterator[str]:
    """Return all descriptions of single things, or of several alike, that training sees, or that it does not."""
    kinds = SHAPES if layout is not Layout.DIGIT else KINDS[len(SHAPES) :]
    for kind in kinds:
        for color in COLORS:
            if held_out_color(kind, color) is held_out:
                yield described(Scene(layout, (Thing(kind, color, 0, 0, 1),), 0))
