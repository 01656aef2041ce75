"""Scenes in words."""

from models.drawings.outlines import DIGITS
from models.drawings.scenes import Layout, Scene, Thing

_MORE = {"circle": "circles", "square": "squares", "triangle": "triangles", "star": "stars", "cross": "crosses"}


def named(thing: Thing) -> str:
    """Return what a thing is, with its colour."""
    return f"{article(thing.color)} {thing.color} {thing.kind}"


def article(word: str) -> str:
    """Return the article of a word."""
    return "an" if word[0] in "aeio" else "a"


def kind_named(thing: Thing) -> str:
    """Return what a thing is, without its colour."""
    return f"{'an' if thing.kind == '8' else 'a'} {thing.kind}" if thing.kind in DIGITS else f"a {thing.kind}"


def more_of(kind: str) -> str:
    """Return the word for several."""
    return _MORE[kind]


def described(scene: Scene) -> str:
    """Return all that is in a picture, without a full stop."""
    if scene.layout is Layout.COUNT:
        return f"{len(scene.things)} {scene.first.color} {more_of(scene.first.kind)}"
    if scene.layout is Layout.PAIR:
        left, right = scene.things
        return f"{named(left)} left of {named(right)}"
    return named(scene.first)
