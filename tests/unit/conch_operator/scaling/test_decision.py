"""How many engines a model should have, second by second."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from conch_operator.scaling.decision import Bounds, Cause, EngineScaler, EnginesSeen, ModelLoad, needed_for
from conch_operator.scaling.starts import StartTimes
from generate.scaling_day.loads import Day, days
from generate.scaling_day.oracle import engine_hours
from generate.scaling_day.simulation import live

BOUNDS = Bounds(least=0, most=8, slots=10, target=0.7, idle_after_s=60)
QUIET = ModelLoad(complete=True)
WINDOW_S = 300
LULL_S = 120


@dataclass
class Model:
    """One model on a clock of its own; its engines start at once unless told otherwise."""

    scaler: EngineScaler
    bounds: Bounds = BOUNDS
    now_s: float = 0.0
    said: list[int] = field(default_factory=list)

    def lives(self, seconds: int, load: ModelLoad, seen: EnginesSeen | None = None) -> int:
        """Return how many engines there are to be after so many seconds of this load."""
        for _ in range(seconds):
            self.now_s += 1
            engines = EnginesSeen(self.scaler.desired) if seen is None else seen
            self.said.append(self.scaler.decide(load, self.bounds, engines, self.now_s))
        return self.said[-1]


def model(engines: int, **bounds: int) -> Model:
    return Model(EngineScaler(engines, 0.0, StartTimes([20])), replace(BOUNDS, **bounds))


def busy(sequences: int, wait_s: float = 0.0, *, complete: bool = True) -> ModelLoad:
    return ModelLoad(sequences, wait_s, complete=complete)


@pytest.mark.parametrize(
    ("engines", "load", "after_s", "wanted"),
    [
        (0, busy(1), 1, 1),  # nobody waits for the first engine
        (0, busy(1, complete=False), 1, 1),
        (1, busy(14), 5, 1),  # more for a moment is no reason
        (1, busy(14), 11, 2),
        (1, busy(14, complete=False), 11, 2),  # what is known of is there
        (1, busy(21), 1, 3),  # twice what all can take is
        (1, busy(14, wait_s=6), 1, 2),
        (1, busy(500), 1, 5),  # at most four more, or twice as many, in the time of a start
        (8, busy(500), 60, 8),
    ],
)
def test_more_engines_come_when_they_are_needed(engines: int, load: ModelLoad, after_s: int, wanted: int) -> None:
    assert model(engines).lives(after_s, load) == wanted


def test_engines_that_start_count_as_if_they_were_there() -> None:
    assert model(3).lives(10, busy(21), EnginesSeen(ready=1)) == 3


def test_what_piles_up_while_engines_start_asks_for_no_more_than_it_fills() -> None:
    assert model(3).lives(20, busy(28), EnginesSeen(ready=1)) == 3
    assert model(1).lives(5, busy(14), EnginesSeen()) == 1, "and for none at once"


@pytest.mark.parametrize(
    ("engines", "ready", "after_s", "wanted"),
    [
        (6, 6, 1, 12),  # twice as many, where that is more than four
        (1, 1, 15, 5),  # engines that have not come yet are none to count on
        (1, 3, 16, 5),  # nor are those that are about to go
        (4, 0, 1, 8),  # those that were there a start ago come back
    ],
)
def test_a_flood_starts_as_many_engines_as_there_were(engines: int, ready: int, after_s: int, wanted: int) -> None:
    assert model(engines, most=20).lives(after_s, busy(500), EnginesSeen(ready=ready)) == wanted


def test_engines_that_come_sooner_than_usual_count_once_they_have_settled() -> None:
    one = model(1)
    one.lives(2, busy(500), EnginesSeen(ready=1))
    assert one.lives(17, busy(500), EnginesSeen(ready=5)) == 8


def test_a_flood_turns_nothing_at_the_bound() -> None:
    one = model(8)
    one.lives(60, busy(500))
    assert (set(one.said), one.scaler.cause) == ({8}, Cause.FOUND)


def test_fewer_than_the_minimum_are_never_wanted_for_a_moment() -> None:
    one = model(3, least=3)
    one.lives(2 * WINDOW_S, busy(1))
    assert (set(one.said), one.scaler.cause) == ({3}, Cause.FOUND)


def test_each_request_fills_an_engine_that_takes_one() -> None:
    assert needed_for(3, replace(BOUNDS, slots=1, target=0.5)) == 3


def test_those_go_that_were_not_needed_for_a_part_of_a_window() -> None:
    one = model(5, least=1)
    one.lives(200, busy(14))
    assert one.lives(WINDOW_S - 201, busy(7)) == 5
    assert one.lives(2, busy(7)) == 2
    assert one.lives(LULL_S - 103, busy(7)) == 2
    assert one.lives(5, busy(7)) == 1


@pytest.mark.parametrize("starts_s", [[200], [20, 20, 20, 20, 200]], ids=["always", "now and then"])
def test_engines_that_take_long_to_start_stay_for_three_starts(starts_s: list[float]) -> None:
    one = Model(EngineScaler(2, 0.0, StartTimes(starts_s)))
    assert one.lives(599, busy(7)) == 2
    assert one.lives(2, busy(7)) == 1


def test_what_was_needed_once_counts_for_a_part_of_a_window() -> None:
    one = model(2, least=1)
    one.lives(WINDOW_S - 1, busy(7))
    one.lives(1, busy(14))
    assert one.lives(LULL_S - 1, busy(7)) == 2
    assert one.lives(2, busy(7)) == 1


def test_no_engine_goes_within_a_window_of_one_that_came() -> None:
    one = model(1, least=1)
    one.lives(400, busy(7))
    one.lives(11, busy(14))
    assert one.lives(WINDOW_S - 15, busy(1)) == 2
    assert one.lives(30, busy(1)) == 1


def test_no_engine_goes_while_another_fails_to_start() -> None:
    one = model(3)
    assert one.lives(900, QUIET, EnginesSeen(ready=2, failing=True)) == 3
    assert not one.scaler.draining


def test_what_is_not_known_takes_no_engine_away() -> None:
    one = model(3)
    assert one.lives(900, busy(0, complete=False)) == 3
    one.lives(1, QUIET)
    assert one.lives(WINDOW_S - 2, busy(7)) == 3
    assert one.lives(10, busy(7)) == 1


def test_all_leave_the_route_before_they_go() -> None:
    one = model(2)
    one.lives(60, QUIET)
    assert not one.scaler.draining
    assert (one.lives(2 * WINDOW_S, QUIET), one.scaler.draining) == (2, True)
    assert one.lives(1, QUIET, EnginesSeen(2, drained=True)) == 0
    assert one.scaler.cause is Cause.IDLE


def test_an_engine_that_took_long_to_start_does_not_go_as_soon_as_it_answers() -> None:
    one = model(1)
    one.lives(500, QUIET, EnginesSeen(0))
    one.lives(59, QUIET)
    assert not one.scaler.draining
    one.lives(3, QUIET)
    assert one.scaler.draining


def test_a_request_gets_engines_back_that_were_about_to_go() -> None:
    one = model(1)
    one.lives(62, QUIET)
    assert one.scaler.draining
    assert one.lives(1, busy(1), EnginesSeen(1, drained=True)) == 1
    assert not one.scaler.draining


@pytest.mark.parametrize("load", [replace(QUIET, idle_s=5.0), replace(QUIET, complete=False)])
def test_no_model_rests_that_may_have_had_a_request(load: ModelLoad) -> None:
    one = model(1)
    assert one.lives(500, load) == 1
    assert not one.scaler.draining


def test_what_somebody_else_had_decided_counts_as_needed_until_now() -> None:
    one = model(2)
    one.lives(30, QUIET)
    for _ in range(2 * WINDOW_S):
        one.now_s += 1
        one.scaler.follow(2, one.now_s)
    one.lives(50, QUIET)
    assert (one.scaler.draining, one.scaler.cause) == (False, Cause.FOUND)
    assert one.lives(WINDOW_S - 60, busy(1)) == 2
    assert one.lives(20, busy(1)) == 1


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda scaler, now_s: scaler.decide(QUIET, BOUNDS, EnginesSeen(), now_s), id="at rest"),
        pytest.param(lambda scaler, now_s: scaler.follow(int(now_s) % 3, now_s), id="scaled by somebody else"),
    ],
)
def test_no_more_is_remembered_after_hours_than_after_a_minute(look: Callable[[EngineScaler, float], object]) -> None:
    scaler = EngineScaler(0, 0.0, StartTimes([20]))
    tracemalloc.start()
    try:
        for now_s in range(60):
            look(scaler, float(now_s))
        before, _ = tracemalloc.get_traced_memory()
        for now_s in range(60, 10_000):
            look(scaler, float(now_s))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 10_000


def test_rest_begins_no_sooner_than_two_starts_after_the_last_request() -> None:
    one = Model(EngineScaler(1, 0.0, StartTimes([100])))
    one.lives(199, QUIET)
    assert not one.scaler.draining
    one.lives(2, QUIET)
    assert one.scaler.draining


@pytest.mark.parametrize(
    ("engines", "bounds", "wanted", "cause"),
    [(0, {"least": 1}, 1, Cause.MINIMUM), (8, {"most": 3}, 3, Cause.MAXIMUM)],
)
def test_new_bounds_are_obeyed_at_once(engines: int, bounds: dict[str, int], wanted: int, cause: Cause) -> None:
    one = model(engines, **bounds)
    assert (one.lives(1, QUIET), one.scaler.cause) == (wanted, cause)


@pytest.mark.parametrize(
    ("least", "why", "cause"),
    [
        (1, Cause.WOKEN, Cause.FOUND),
        (2, Cause.WOKEN, Cause.WOKEN),
        (2, Cause.SCHEDULE, Cause.SCHEDULE),
        (2, Cause.MINIMUM, Cause.FOUND),
    ],
)
def test_what_keeps_engines_for_a_time_is_why_they_are_there(least: int, why: Cause, cause: Cause) -> None:
    one = model(2)
    one.bounds = replace(BOUNDS, least=least, why_least=why)
    assert (one.lives(1, QUIET), one.scaler.cause) == (2, cause)


WORTH = 1.15
"""Engine hours of a day, as a multiple of what they are for somebody who knows it in advance."""


@pytest.mark.parametrize("day", days(), ids=lambda day: day.name)
def test_a_day_is_served_without_a_refusal_and_without_flapping(day: Day) -> None:
    lived = live(day)
    assert sum(lived.refused) == 0
    assert lived.longest_wait_s <= 30
    assert all(
        later - earlier >= WINDOW_S for earlier, later in zip(lived.reversals, lived.reversals[1:], strict=False)
    )
    assert lived.engine_hours / engine_hours(day) <= WORTH


def test_what_idle_after_costs_beside_somebody_who_knows_when_the_next_request_comes() -> None:
    sparse = next(day for day in days() if day.least == 0)
    assert live(sparse).engine_hours / engine_hours(sparse, keeps_idle_after=False) <= 1.4


@pytest.mark.parametrize(
    ("lends", "start_s", "rests_at_s"), [(False, 2, 60), (True, 2, 5), (True, 20, 20), (True, 90, 90)]
)
def test_a_model_that_lends_its_room_rests_once_it_was_idle_for_a_start_or_five_seconds(
    lends: bool, start_s: float, rests_at_s: int
) -> None:
    one = Model(EngineScaler(1, 0.0, StartTimes([start_s])), replace(BOUNDS, lends=lends, idle_after_s=60))
    one.lives(300, busy(1))
    one.lives(rests_at_s, QUIET)
    assert not one.scaler.draining
    one.lives(1, QUIET)
    assert one.scaler.draining
    one.lives(1, QUIET, EnginesSeen(1, drained=True))
    assert (one.scaler.desired, one.scaler.cause) == (0, Cause.LENT if lends else Cause.IDLE)


def test_a_model_that_must_not_rest_lends_nothing() -> None:
    one = Model(EngineScaler(1, 0.0, StartTimes([2])), replace(BOUNDS, least=1, lends=True))
    one.lives(600, QUIET)
    assert not one.scaler.draining
