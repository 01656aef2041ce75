"""What there is to do, by what gateways said last."""

from typing import Any

from conch_contracts.names import ModelId
from conch_contracts.records import GatewayLoad
from conch_operator.scaling.decision import ModelLoad
from conch_operator.scaling.demand import DemandBook
from testkit.clock import FakeClock

TINY = ModelId("local/tiny")


def load(gateway: str, sequence: int = 1, **demand: Any) -> GatewayLoad:
    models = {TINY: demand} if demand else {}
    record = {"id": gateway, "sequence": sequence, "models": models}
    return GatewayLoad.model_validate(record)


def book(clock: FakeClock, *loads: GatewayLoad) -> DemandBook:
    made = DemandBook(clock)
    made.come_back()
    made.take_all(loads)
    return made


def test_gateways_add_up() -> None:
    clock = FakeClock()
    a = load("a", in_flight=2, queued=1, held=1, oldest_wait_s=0.5, idle_s=9.0)
    b = load("b", in_flight=3, oldest_wait_s=0.1, idle_s=7.0)
    both = book(clock, a, b)
    clock.advance(1)
    assert both.of(TINY, {"a", "b"}) == ModelLoad(7, 0.5, 8.0, complete=True)
    assert both.of(ModelId("local/other"), {"a", "b"}) == ModelLoad(complete=True)


def test_a_gateway_that_has_not_said_it_or_is_not_known_leaves_it_incomplete() -> None:
    one = book(FakeClock(), load("a", in_flight=1))
    assert not one.of(TINY, {"a", "b"}).complete
    assert not one.of(TINY, set()).complete


def test_a_request_that_is_held_anywhere_counts_while_its_gateway_lives() -> None:
    clock = FakeClock()
    one = book(clock, load("a", in_flight=2, queued=3), load("b"))
    assert not one.holds()
    one.hear(load("b", 2, held=1))
    assert one.holds()
    one.hear(load("b", 3))
    assert not one.holds()


def test_an_older_record_says_nothing_new() -> None:
    one = book(FakeClock(), load("a", 5, in_flight=1))
    assert not one.hear(load("a", 4, in_flight=9))
    assert one.hear(load("a", 6, in_flight=2))
    assert one.of(TINY, {"a"}).sequences == 2


def test_a_gateway_that_stands_still_is_gone_after_six_seconds_but_not_while_redis_is_away() -> None:
    clock = FakeClock()
    one = book(clock, load("a", in_flight=1))
    one.lose()
    clock.advance(60)
    assert one.of(TINY, {"a"}) == ModelLoad(1)
    one.come_back()
    one.take_all([load("b", 1, in_flight=1)])
    assert one.of(TINY, {"a", "b"}) == ModelLoad(2, complete=True)
    clock.advance(7)
    assert not one.of(TINY, {"a", "b"}).complete


def test_a_gateway_that_was_gone_before_redis_went_away_stays_gone() -> None:
    clock = FakeClock()
    one = book(clock, load("dead", in_flight=50))
    clock.advance(30)
    one.hear(load("a", in_flight=1))
    one.lose()
    assert one.of(TINY, {"a"}) == ModelLoad(1)
    one.hear(load("late", in_flight=2))
    assert one.of(TINY, {"a"}) == ModelLoad(3), "who speaks meanwhile lives"
    one.come_back()
    assert one.of(TINY, {"a"}) == ModelLoad(3, complete=True)


def test_who_has_spoken_since_a_moment() -> None:
    clock = FakeClock()
    one = book(clock, load("a"), load("b"))
    clock.advance(1)
    one.hear(load("a", 2))
    assert not one.said_since(clock() - 0.5)
    one.hear(load("b", 2))
    assert one.said_since(clock() - 0.5)
    clock.advance(1)
    one.lose()
    one.come_back()
    assert not one.said_since(clock() - 0.5), "that Redis is back is nobody's word"


def test_a_revision_is_applied_when_every_gateway_that_lives_has_applied_it() -> None:
    clock = FakeClock()
    one = book(clock, load("a").model_copy(update={"revision": 5}), load("b").model_copy(update={"revision": 3}))
    assert one.applied() == 3
    clock.advance(7)
    one.hear(load("a", 2).model_copy(update={"revision": 6}))
    assert one.applied() == 6, "the other has gone"
    clock.advance(7)
    assert one.applied() == 0


def test_slots_of_an_engine_add_up_over_gateways() -> None:
    one = book(FakeClock(), load("a", taken={"e:1": 2, "e:2": 1}), load("b", taken={"e:1": 3}))
    assert one.taken(TINY) == {"e:1": 5, "e:2": 1}
    assert one.taken(ModelId("local/other")) == {}
