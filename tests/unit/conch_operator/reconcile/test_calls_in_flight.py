import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest

from conch_operator.reconcile.calls_in_flight import Background, CallsInFlight
from testkit.waiting import eventually


class Calls:
    """Calls that end when a test says so."""

    def __init__(self) -> None:
        self.may_end: dict[str, asyncio.Event] = {}
        self.begun: list[str] = []

    def of(self, *names: str) -> dict[str, Callable[[], Awaitable[str]]]:
        return {name: partial(self._call, name) for name in names}

    async def _call(self, name: str) -> str:
        self.begun.append(name)
        await self.may_end.setdefault(name, asyncio.Event()).wait()
        return name.upper()

    def end(self, *names: str) -> None:
        for name in names:
            self.may_end.setdefault(name, asyncio.Event()).set()


@pytest.fixture
async def background() -> AsyncIterator[Background]:
    async with asyncio.TaskGroup() as tasks:
        yield Background(tasks.create_task, patience_s=0.05)


async def test_one_that_hangs_holds_up_no_other_and_is_not_begun_again(background: Background) -> None:
    calls, flights = Calls(), CallsInFlight[str, str](background)
    calls.end("quick")
    assert await flights.run(calls.of("quick", "slow")) == {"quick": "QUICK"}
    assert flights.waiting == {"slow"}
    assert await flights.run(calls.of("quick", "slow")) == {"quick": "QUICK"}
    assert calls.begun == ["quick", "slow", "quick"]
    calls.end("slow")
    await eventually(lambda: not flights.waiting, "the slow call")
    assert await flights.run({}) == {"slow": "SLOW"}
    assert await flights.run({}) == {}


async def test_one_that_ended_since_the_last_look_is_not_begun_again_by_who_does_not_know(
    background: Background,
) -> None:
    changed: list[int] = []
    calls = Calls()
    flights = CallsInFlight[str, str](Background(background.start, lambda: changed.append(1), 0.05))
    assert await flights.run(calls.of("slow")) == {}
    calls.end("slow")
    await eventually(lambda: changed == [1], "the end of the slow call")
    assert await flights.run(calls.of("slow")) == {"slow": "SLOW"}
    assert calls.begun == ["slow"]
    assert changed == [1, 1], "it may be needed all the same, so another round begins"
    assert await flights.run(calls.of("slow")) == {"slow": "SLOW"}
    assert calls.begun == ["slow", "slow"]


async def test_only_a_late_end_is_told(background: Background) -> None:
    changed: list[int] = []
    calls = Calls()
    flights = CallsInFlight[str, str](Background(background.start, lambda: changed.append(1), 0.05))
    calls.end("quick")
    await flights.run(calls.of("quick", "slow"))
    assert changed == []
    calls.end("slow")
    await eventually(lambda: changed == [1], "the end of the slow call")


async def test_a_round_does_not_wait_for_what_an_earlier_one_began() -> None:
    calls, flights = Calls(), CallsInFlight[str, str]()
    flights.start(calls.of("slow"))
    calls.end("quick")
    async with asyncio.timeout(60):  # without the patience to wait for ever
        assert await flights.run(calls.of("quick", "slow")) == {"quick": "QUICK"}
    calls.end("slow")


async def test_an_error_is_raised_where_the_results_are_taken_and_does_not_end_the_others() -> None:
    async def fail() -> str:
        raise OSError("no")

    calls, flights = Calls(), CallsInFlight[str, str]()
    calls.end("quick")
    with pytest.raises(OSError, match="no"):
        await flights.run({"bad": fail, **calls.of("quick")})
    assert calls.begun == ["quick"]
    assert await flights.run({}) == {}


async def test_so_many_run_at_once_and_no_more(background: Background) -> None:
    calls, flights = Calls(), CallsInFlight[str, str](background, at_once=2)
    assert await flights.run(calls.of("a", "b", "c")) == {}
    assert calls.begun == ["a", "b"]
    calls.end("a", "b", "c")
    await eventually(lambda: not flights.waiting, "all calls")
    assert await flights.run({}) == {"a": "A", "b": "B", "c": "C"}
