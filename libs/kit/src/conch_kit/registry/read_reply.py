"""Reads what the `READ` script answered. Pure; whatever Redis holds, the outcome is one of four."""

from collections.abc import Mapping
from dataclasses import dataclass

_MAX_DIGITS = 15  # what Lua can count exactly


@dataclass(frozen=True, slots=True)
class RawModel:
    """One model as Redis holds it."""

    model: bytes
    route: bytes
    engines: Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class RawList:
    """A complete list as Redis holds it."""

    epoch: str
    revision: int
    models: tuple[RawModel, ...]


class Unchanged:
    """The reader already has what Redis holds."""


class Missing:
    """Redis holds no list at all."""


class Damaged:
    """Redis holds something that no writer of ours has left so."""


def interpret(reply: object) -> RawList | Unchanged | Missing | Damaged:
    """Return what the script's reply means."""
    match reply:
        case [[b"", b"", b""], *_]:
            return Missing()
        case [[bytes(), bytes(), bytes()]]:
            return Unchanged()
        case [[bytes(epoch), bytes(revision), bytes(count)], list(models)]:
            whole = epoch.isalnum() and revision.isdigit() and len(revision) <= _MAX_DIGITS
            if not whole or count != str(len(models)).encode():
                return Damaged()
            return RawList(epoch.decode(), int(revision), tuple(_model(item) for item in models))
        case _:
            return Damaged()


def _model(item: object) -> RawModel:
    match item:
        case [bytes(model), bytes(route), list(flat)]:
            return RawModel(model, route, dict(zip(flat[::2], flat[1::2], strict=True)))
        case _:
            raise TypeError(f"The READ script answered a model as {item!r}.")
