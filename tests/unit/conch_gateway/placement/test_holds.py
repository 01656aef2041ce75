"""What is known of a start, and how a held request hears of its end."""

import asyncio
import math

import pytest

from conch_contracts.names import EngineAddress
from conch_contracts.records import Engine
from conch_gateway.placement.holds import EngineStart, Hold, granted_or_told
from testkit.clock import FakeClock

ENGINE = Engine(grpc=EngineAddress("a:1"))


@pytest.mark.parametrize(
    ("takes_s", "passed_s", "left_s", "earliest_s", "latest_s"),
    [
        (None, 0, None, 30, 37.5),
        (40, 0, 40, 40, 50),
        (40, 25, 15, 15, 18.75),
        (40, 39.5, 0.5, 1, 4),
        (40, 90, 0, 1, 4),
        (300, 10, 290, 48, 60),
    ],
)
def test_a_client_is_told_how_long_the_start_takes_yet(
    takes_s: float | None, passed_s: float, left_s: float | None, earliest_s: float, latest_s: float
) -> None:
    start = EngineStart(takes_s)
    start.wanted(100.0)
    start.wanted(100.0 + passed_s)
    assert start.left_s(100.0 + passed_s) == left_s
    told = [start.retry_after_s(100.0 + passed_s) for _ in range(200)]
    assert earliest_s <= min(told) < max(told) <= latest_s
    assert len({math.ceil(seconds) for seconds in told}) > 2, "all come again in the same second"


def test_a_start_that_was_wanted_long_ago_and_never_came_is_another_one() -> None:
    start = EngineStart(40)
    start.wanted(100.0)
    start.wanted(5000.0)
    assert start.left_s(5010.0) == 30


class _Client:
    """Hears of the wait, while time passes by itself."""

    def __init__(self, clock: FakeClock, granted: asyncio.Future[Engine], words: int) -> None:
        self.heard: list[tuple[float, float | None]] = []
        self._clock = clock
        self._granted = granted
        self._words = words

    async def tell(self, left_s: float | None) -> None:
        self.heard.append((self._clock.now, left_s))
        if len(self.heard) == self._words:
            self._granted.set_result(ENGINE)


def _hold(client: _Client | None, *, first_s: float = 0.0, next_s: float = 0.0) -> Hold:
    tell = None if client is None else client.tell
    return Hold(0.0, lambda _: None, tell, first_word_s=first_s, next_word_s=next_s)


async def test_a_stream_hears_again_and_again_until_its_engine_is_there() -> None:
    clock, granted = FakeClock(), asyncio.get_running_loop().create_future()
    client = _Client(clock, granted, words=3)
    engine = await granted_or_told(granted, _hold(client), lambda: math.inf, lambda now: now, clock)
    assert engine is ENGINE
    assert client.heard == [(1000.0, 1000.0)] * 3


async def test_who_has_an_engine_before_the_first_word_hears_none() -> None:
    clock, granted = FakeClock(), asyncio.get_running_loop().create_future()
    client = _Client(clock, granted, words=1)
    waiting = asyncio.create_task(
        granted_or_told(granted, _hold(client, first_s=3600), lambda: math.inf, lambda _: None, clock)
    )
    await asyncio.sleep(0)
    granted.set_result(ENGINE)
    assert await waiting is ENGINE
    assert client.heard == []


async def test_a_hold_ends_at_its_time_and_that_may_move() -> None:
    granted: asyncio.Future[Engine] = asyncio.get_running_loop().create_future()
    ends = iter([2000.0, 1000.01, 900.0])
    clock = FakeClock()
    assert await granted_or_told(granted, _hold(None), lambda: next(ends), lambda _: None, clock) is None
