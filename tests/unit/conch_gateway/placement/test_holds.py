"""What is known of a start, and how a held request hears of its end."""

import asyncio
import math
from collections.abc import Callable

import pytest

from conch_contracts.names import EngineAddress
from conch_contracts.records import Engine
from conch_gateway.placement.holds import EngineStart, HeldWait, Hold
from testkit.clock import FakeClock
from testkit.waiting import eventually

ENGINE = Engine(grpc=EngineAddress("a:1"))
LIMIT_S = 60.0


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

    def __init__(self, clock: FakeClock, granted: asyncio.Future[Engine | None], words: int) -> None:
        self.heard: list[tuple[float, float | None]] = []
        self._clock = clock
        self._granted = granted
        self._words = words

    async def tell(self, left_s: float | None) -> None:
        self.heard.append((self._clock.now, left_s))
        if len(self.heard) == self._words:
            self._granted.set_result(ENGINE)


class _Unread:
    """A client that does not read what it is told."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.reads = asyncio.Event()
        self.cut = False

    async def tell(self, left_s: float | None) -> None:
        self.told.set()
        try:
            await self.reads.wait()
        except asyncio.CancelledError:
            self.cut = True
            raise


def _hold(client: _Client | _Unread | None, *, first_s: float = 0.0, next_s: float = 0.0) -> Hold:
    tell = None if client is None else client.tell
    return Hold(0.0, lambda _: None, tell, first_word_s=first_s, next_word_s=next_s)


def _never() -> float:
    return math.inf


async def _granted_or_told(
    granted: asyncio.Future[Engine | None], hold: Hold, ends: Callable[[], float] = _never
) -> Engine | None:
    async with asyncio.timeout(LIMIT_S), HeldWait(granted, hold, ends, EngineStart(40), FakeClock()):
        return await granted


async def test_a_stream_hears_again_and_again_until_its_engine_is_there() -> None:
    granted: asyncio.Future[Engine | None] = asyncio.get_running_loop().create_future()
    client = _Client(FakeClock(), granted, words=3)
    assert await _granted_or_told(granted, _hold(client)) is ENGINE
    assert client.heard == [(1000.0, 40.0)] * 3


async def test_who_has_an_engine_before_the_first_word_hears_none() -> None:
    granted: asyncio.Future[Engine | None] = asyncio.get_running_loop().create_future()
    client = _Client(FakeClock(), granted, words=1)
    waiting = asyncio.create_task(_granted_or_told(granted, _hold(client, first_s=3600)))
    await asyncio.sleep(0)
    granted.set_result(ENGINE)
    assert await waiting is ENGINE
    assert client.heard == []


async def test_a_hold_ends_at_its_time_and_that_may_move() -> None:
    granted: asyncio.Future[Engine | None] = asyncio.get_running_loop().create_future()
    ends = iter([1000.01, 2000.0, 1000.02, 900.0])
    assert await _granted_or_told(granted, _hold(None), lambda: next(ends)) is None


async def test_the_last_word_comes_before_the_answer() -> None:
    granted: asyncio.Future[Engine | None] = asyncio.get_running_loop().create_future()
    client = _Unread()
    waiting = asyncio.create_task(_granted_or_told(granted, _hold(client)))
    await asyncio.wait_for(client.told.wait(), LIMIT_S)
    granted.set_result(ENGINE)
    done, _ = await asyncio.wait({waiting}, timeout=0.01)
    assert not done
    client.reads.set()
    assert await waiting is ENGINE


async def test_a_client_that_goes_while_it_is_told_is_told_no_more() -> None:
    client = _Unread()
    granted: asyncio.Future[Engine | None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(_granted_or_told(granted, _hold(client)))
    await asyncio.wait_for(client.told.wait(), LIMIT_S)
    waiting.cancel()
    await asyncio.wait({waiting})
    await eventually(lambda: client.cut, "the word to be cut short")
