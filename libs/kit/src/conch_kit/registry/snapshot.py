"""What a process knows of the registry at one moment, and how raw Redis values become that. Pure.

A value that cannot be parsed is counted once and treated as if it had not been written: the record that was there
before stays in force.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

from pydantic import BaseModel, ValidationError

from conch_contracts.names import ModelId
from conch_contracts.records import Engine, Heartbeat, Pool, Route
from conch_kit.registry.read_reply import RawChanges, RawList, RawModel

R = TypeVar("R", bound=BaseModel)

UNKNOWN_ROUTE = "null"
"""In place of the route of a model that is wanted and whose route the writer does not know, as after it and Redis were
both replaced: whoever knows one keeps it."""
_UNKNOWN = UNKNOWN_ROUTE.encode()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Routes, engines and live processes, all of one moment."""

    revision: int = 0
    routes: Mapping[ModelId, Route] = field(default_factory=dict)
    engines: Mapping[ModelId, tuple[Engine, ...]] = field(default_factory=dict)
    workers: Mapping[Pool, tuple[Heartbeat, ...]] = field(default_factory=dict)
    by_name: Mapping[str, Route] = field(default_factory=dict)
    """Served name or alias to route; of two routes with one name the oldest has it."""
    epoch: str = ""
    """Which life of the registry this is of; empty before the first list."""
    read: Mapping[ModelId, RawModel] = field(default_factory=dict, compare=False, repr=False)
    """Each model as it was read, with those of unknown routes. A route that is read again unchanged is not parsed
    again, nor are the engines of a model that is."""

    EMPTY: ClassVar["Snapshot"]


Snapshot.EMPTY = Snapshot()


@dataclass(slots=True)
class Parser:
    """Turns raw values into records and counts those that it had to ignore."""

    ignored: int = 0

    def record(self, kind: type[R], raw: bytes) -> R | None:
        """Return the record, or None when the value is no such record."""
        try:
            return kind.model_validate_json(raw)
        except ValidationError:
            self.ignored += 1
            return None

    def key(self, raw: bytes) -> str | None:
        """Return a key as text, or None when it is none."""
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.ignored += 1
            return None


def merge(old: Snapshot, raw: RawList, parser: Parser) -> Snapshot:
    """Return the snapshot after a complete list was read; values that cannot be parsed leave what was known."""
    return _with(old, Snapshot.EMPTY, raw, parser)


def apply(old: Snapshot, raw: RawChanges, parser: Parser) -> Snapshot | None:
    """Return the snapshot after these changes; None where they do not make the whole list of it."""
    kept = _without(old, raw.gone) if raw.gone else old
    changed = _with(old, kept, raw, parser)
    return changed if len(changed.read) == raw.count else None


def _without(old: Snapshot, gone: Iterable[bytes]) -> Snapshot:
    ids = {key.decode(errors="replace") for key in gone}
    return Snapshot(
        routes={model: route for model, route in old.routes.items() if model not in ids},
        engines={model: known for model, known in old.engines.items() if model not in ids},
        read={model: item for model, item in old.read.items() if model not in ids},
    )


def _with(old: Snapshot, kept: Snapshot, raw: RawList | RawChanges, parser: Parser) -> Snapshot:
    """Return the snapshot of what is kept and of what was read."""
    routes, engines, read = dict(kept.routes), dict(kept.engines), dict(kept.read)
    for item in raw.models:
        key = parser.key(item.model)
        if key is None:
            continue
        model = ModelId(key)
        before = old.read.get(model)
        same = before == item
        unknown = item.route == _UNKNOWN
        route = old.routes.get(model)
        if not (unknown or (before is not None and before.route == item.route)):
            route = parser.record(Route, item.route) or route
        if route is not None:
            known = old.engines.get(model, ())
            stays = same or (unknown and not item.engines)
            routes[model], engines[model] = route, known if stays else _engines(item.engines, known, parser)
        if route is not None or unknown:
            read[model] = item
    return Snapshot(raw.revision, routes, engines, old.workers, _names(old, routes), raw.epoch, read)


def _names(old: Snapshot, routes: Mapping[ModelId, Route]) -> Mapping[str, Route]:
    """Return what `by_name` does, without sorting where every model claims what it did."""
    if routes.keys() != old.routes.keys():
        return by_name(routes.values())
    changed = [(before, route) for model, route in routes.items() if (before := old.routes[model]) is not route]
    if any(_claims(before) != _claims(route) for before, route in changed):
        return by_name(routes.values())
    names = dict(old.by_name)
    for before, route in changed:
        names.update((name, route) for name in route.served_names if names[name] is before)
    return names


def _claims(route: Route) -> tuple[object, ...]:
    """Return which names a model claims, and all that decides whether it has them."""
    return route.served_names, route.created, route.model_id


def by_name(routes: Iterable[Route]) -> dict[str, Route]:
    """Return each served name with the route that has it: the oldest, then the one with the smallest model id."""
    names: dict[str, Route] = {}
    for route in sorted(routes, key=lambda route: (route.created, route.model_id)):
        for name in route.served_names:
            names.setdefault(name, route)
    return names


def _engines(raw: Mapping[bytes, bytes], known: tuple[Engine, ...], parser: Parser) -> tuple[Engine, ...]:
    before = {engine.grpc.encode(): engine for engine in known}
    found = (parser.record(Engine, value) or before.get(address) for address, value in sorted(raw.items()))
    return tuple(engine for engine in found if engine is not None)


def replace_workers(old: Snapshot, workers: Mapping[Pool, tuple[Heartbeat, ...]]) -> Snapshot:
    """Return the snapshot with these processes; the same object when nothing but sequence numbers has moved."""
    if {pool: _shape(beats) for pool, beats in workers.items()} == {p: _shape(b) for p, b in old.workers.items()}:
        return old
    return replace(old, workers=workers)


def _shape(beats: Iterable[Heartbeat]) -> tuple[tuple[object, ...], ...]:
    return tuple((beat.url, beat.in_flight, beat.draining, beat.streaming) for beat in beats)
