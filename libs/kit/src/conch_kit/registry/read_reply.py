"""Reads what the `READ` script answered. Pure; whatever Redis holds, the outcome is one of five."""

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


@dataclass(frozen=True, slots=True)
class RawChanges:
    """What has changed in a list since an earlier revision."""

    epoch: str
    revision: int
    since: int
    count: int
    """How many models the whole list has."""
    models: tuple[RawModel, ...]
    gone: tuple[bytes, ...]


class Unchanged:
    """The reader already has what Redis holds."""


class Missing:
    """Redis holds no list at all."""


class Damaged:
    """Redis holds something that no writer of ours has left so."""


def interpret(reply: object) -> RawList | RawChanges | Unchanged | Missing | Damaged:
    """Return what the script's reply means."""
    match reply:
        case [[b"", b"", b""], *_]:
            return Missing()
        case [[bytes(), bytes(), bytes()]]:
            return Unchanged()
        case [[bytes(epoch), bytes(revision), bytes(count)], list(models)]:
            if not _is_whole(epoch, revision) or count != str(len(models)).encode():
                return Damaged()
            return RawList(epoch.decode(), int(revision), tuple(_model(item) for item in models))
        case [[bytes(epoch), bytes(revision), bytes(count)], list(changed), bytes(since)]:
            if not (_is_whole(epoch, revision) and _is_number(count) and _is_number(since)):
                return Damaged()
            there = tuple(_model(item) for item in changed if len(item) > 1)
            gone = tuple(item[0] for item in changed if len(item) == 1)
            return RawChanges(epoch.decode(), int(revision), int(since), int(count), there, gone)
        case _:
            return Damaged()


def _is_whole(epoch: bytes, revision: bytes) -> bool:
    return epoch.isalnum() and _is_number(revision)


def _is_number(text: bytes) -> bool:
    return text.isdigit() and len(text) <= _MAX_DIGITS


def _model(item: object) -> RawModel:
    match item:
        case [bytes(model), bytes(route), list(flat)]:
            return RawModel(model, route, dict(zip(flat[::2], flat[1::2], strict=True)))
        case _:
            raise TypeError(f"The READ script answered a model as {item!r}.")
