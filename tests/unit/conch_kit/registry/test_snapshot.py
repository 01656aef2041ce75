import random
from dataclasses import replace

import orjson
import pytest

from conch_contracts.names import ModelId, WorkerUrl
from conch_contracts.records import Engine, Heartbeat, Pool, Route
from conch_kit.registry.read_reply import RawChanges, RawList, RawModel
from conch_kit.registry.snapshot import UNKNOWN_ROUTE, Parser, Snapshot, apply, by_name, merge, replace_workers
from testkit.builders.records import engine, route

A = ModelId("local/a")


def _raw(model: Route, *engines: Engine, revision: int = 1) -> RawList:
    found = {item.grpc.encode(): item.model_dump_json().encode() for item in engines}
    return RawList("e", revision, (RawModel(model.model_id.encode(), model.model_dump_json().encode(), found),))


def test_a_list_replaces_what_was_known() -> None:
    before = merge(Snapshot.EMPTY, _raw(route("a"), engine(1)), Parser())
    after = merge(before, _raw(route("b"), engine(2), revision=2), Parser())
    assert after.routes == {"local/b": route("b")}
    assert after.engines == {"local/b": (engine(2),)}
    assert (after.epoch, after.revision) == ("e", 2)


def test_a_field_of_a_newer_writer_is_tolerated() -> None:
    text = route("a").model_dump_json()[:-1] + ',"from_the_future":1}'
    raw = RawList("e", 1, (RawModel(b"local/a", text.encode(), {}),))
    parser = Parser()
    assert merge(Snapshot.EMPTY, raw, parser).routes[A] == route("a")
    assert parser.ignored == 0


def test_an_engine_is_read_as_an_older_operator_writes_it() -> None:
    written = engine(1).model_dump() | {"http": "127.0.0.1:8000", "state": "ready", "pod": None, "version": None}
    raw = RawList("e", 1, (RawModel(b"local/a", route("a").model_dump_json().encode(), {b"x": orjson.dumps(written)}),))
    parser = Parser()
    assert merge(Snapshot.EMPTY, raw, parser).engines[A] == (engine(1),)
    assert parser.ignored == 0


@pytest.mark.parametrize(
    ("route_value", "engine_value", "ignored"),
    [(b"garbage", None, 1), (None, b"{}", 1), (b"\xff", b"[]", 2), (b'{"schema_version":2}', None, 1)],
)
def test_a_value_that_cannot_be_read_leaves_the_record_that_was_there(
    route_value: bytes | None, engine_value: bytes | None, ignored: int
) -> None:
    before = merge(Snapshot.EMPTY, _raw(route("a"), engine(1)), Parser())
    engines = {engine(1).grpc.encode(): engine_value or engine(1).model_dump_json().encode()}
    value = route_value or route("a").model_dump_json().encode()
    parser = Parser()
    after = merge(before, RawList("e", 2, (RawModel(b"local/a", value, engines),)), parser)
    assert (after.routes, after.engines) == (before.routes, before.engines)
    assert parser.ignored == ignored


def test_a_model_whose_route_the_writer_does_not_know_stays_as_it_was() -> None:
    before = merge(Snapshot.EMPTY, _raw(route("a"), engine(1)), Parser())
    parser, unknown = Parser(), RawModel(b"local/a", UNKNOWN_ROUTE.encode(), {})
    emptied = merge(before, RawList("f", 2, (unknown, RawModel(b"local/new", UNKNOWN_ROUTE.encode(), {}))), parser)
    assert (emptied.routes, emptied.engines) == (before.routes, before.engines)
    read_again = apply(emptied, RawChanges("f", 3, 2, 2, (unknown,), ()), parser)
    assert read_again is not None, "the one of which nobody knows a route counts"
    assert (read_again.routes, read_again.engines) == (before.routes, before.engines)
    probed = replace(unknown, engines=_raw(route("a"), engine(3)).models[0].engines)
    answering = merge(read_again, RawList("f", 3, (probed,)), parser)
    assert (answering.routes, answering.engines) == (before.routes, {A: (engine(3),)}), "those that are told count"
    known = merge(answering, replace(_raw(route("a"), engine(2), revision=4), epoch="f"), parser)
    assert known.engines == {A: (engine(2),)}
    deleted = apply(known, RawChanges("f", 5, 4, 0, (), (b"local/a",)), parser)
    assert deleted is not None
    assert deleted.routes == {}
    assert parser.ignored == 0


def test_a_model_that_was_never_readable_is_left_out() -> None:
    models = (RawModel(b"local/a", b"garbage", {}), RawModel(b"\xff", b"{}", {}))
    parser = Parser()
    assert merge(Snapshot.EMPTY, RawList("e", 1, models), parser).routes == {}
    assert parser.ignored == 2


def test_the_oldest_model_keeps_a_name_that_two_want() -> None:
    old = route("z", served=("shared", "z"), created=1)
    young = route("a", served=("shared", "a"), created=2)
    twin = route("b", served=("a",), created=2)
    names = by_name([twin, young, old])
    assert {name: found.model_id for name, found in names.items()} == {
        "shared": "local/z",
        "z": "local/z",
        "a": "local/a",
    }


def _drawn(draw: random.Random, name: str) -> RawModel:
    """Return a model with some other names, age and engine; now and then one that cannot be read, or is not known."""
    served = tuple(dict.fromkeys((name, draw.choice("axy"))))
    claims = route(name, served=served, created=draw.randint(1, 2), max_model_len=draw.randint(1, 2))
    (drawn,) = _raw(claims, engine(draw.randint(1, 2))).models
    lost = draw.choice([UNKNOWN_ROUTE.encode(), b"garbage"])
    return replace(drawn, route=lost) if draw.random() < 0.1 else drawn


def test_names_after_a_change_are_those_of_the_whole_list() -> None:
    draw, parser, known = random.Random(1), Parser(), Snapshot(epoch="e")
    for revision in range(1, 1000):
        changed = {f"local/{name}": _drawn(draw, name) for name in draw.sample("abcdef", draw.randint(0, 2))}
        if draw.random() < 0.3:
            known = merge(known, RawList("e", revision, tuple((known.read | changed).values())), parser)
        else:
            gone = [model for model in known.read.keys() - changed.keys() if draw.random() < 0.05]
            gone_keys = tuple(model.encode() for model in sorted(gone))
            raw = RawChanges("e", revision, revision - 1, 0, tuple(changed.values()), gone_keys)
            unreadable = [model for model in changed.keys() - known.read.keys() if changed[model].route == b"garbage"]
            count = len((known.read.keys() | changed.keys()) - {*gone, *unreadable})
            applied = apply(known, replace(raw, count=count), parser)
            assert applied is not None
            known = applied
        assert known.by_name == by_name(known.routes.values())
    assert len(known.routes) > 3


def test_a_route_that_is_read_again_unchanged_is_the_same_object() -> None:
    before = merge(Snapshot.EMPTY, _raw(route("a"), engine(1)), Parser())
    woken = apply(before, RawChanges("e", 2, 1, 1, _raw(route("a"), engine(2)).models, ()), Parser())
    assert woken is not None
    assert woken.routes[A] is before.routes[A]
    assert woken.engines == {A: (engine(2),)}


def _beat(sequence: int, in_flight: int = 0) -> Heartbeat:
    return Heartbeat(url=WorkerUrl("http://w"), sequence=sequence, in_flight=in_flight)


def test_a_beat_that_tells_nothing_new_makes_no_new_snapshot() -> None:
    first = replace_workers(Snapshot.EMPTY, {Pool.LLM: (_beat(1),)})
    assert replace_workers(first, {Pool.LLM: (_beat(2),)}) is first
    assert replace_workers(first, {Pool.LLM: (_beat(2, in_flight=1),)}).workers[Pool.LLM][0].in_flight == 1
    assert replace_workers(first, {Pool.LLM: ()}).workers[Pool.LLM] == ()
