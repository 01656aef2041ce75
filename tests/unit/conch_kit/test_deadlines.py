"""Deadlines of one loop: they come when they should, move, and go."""

import asyncio
import gc
import weakref
from dataclasses import dataclass, field
from typing import Any

import pytest

from conch_kit.deadlines import LOOK_S, SLACK_S, deadlines, time_limit
from testkit.waiting import eventually

SOON_S = 0.02
ROOM_S = 1.0
"""What a busy machine may add."""


@dataclass(eq=False)
class Noted:
    """Notes when it was due."""

    when: float
    calls: list[float] = field(default_factory=list)

    def due(self, now: float) -> None:
        self.calls.append(now)
        deadlines().remove(self)


def in_s(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def added(seconds: float) -> Noted:
    noted = Noted(in_s(seconds))
    deadlines().add(noted)
    return noted


async def until_due(*noted: Noted) -> None:
    await eventually(lambda: all(each.calls for each in noted), "the deadlines")


async def test_each_comes_at_its_time_whatever_the_order() -> None:
    late, soon, between = await added(3 * SOON_S), await added(SOON_S), await added(2 * SOON_S)
    await until_due(late, soon, between)
    for each in (soon, between, late):
        assert len(each.calls) == 1
        assert -0.002 <= each.calls[0] - each.when < SLACK_S + ROOM_S


async def test_what_is_removed_never_comes() -> None:
    gone, kept = await added(SOON_S), await added(2 * SOON_S)
    deadlines().remove(gone)
    deadlines().remove(gone)
    await until_due(kept)
    assert gone.calls == []


async def test_one_that_moves_is_seen_at_its_new_time() -> None:
    later, earlier = await added(SOON_S), await added(60)
    later.when = in_s(4 * SOON_S)
    earlier.when = in_s(SOON_S)
    await until_due(later, earlier)
    assert later.calls[0] >= later.when - 0.002
    assert earlier.calls[0] - earlier.when < LOOK_S + ROOM_S


async def test_one_that_removes_another_keeps_it_from_coming() -> None:
    first, second = Noted(in_s(SOON_S)), Noted(in_s(SOON_S))
    both = {first, second}

    def due(self: Noted, now: float) -> None:
        self.calls.append(now)
        for each in both:
            deadlines().remove(each)

    for each in both:
        each.due = due.__get__(each)  # type: ignore[method-assign]
        deadlines().add(each)
    await eventually(lambda: bool(first.calls or second.calls), "one of them")
    await asyncio.sleep(0)
    assert len(first.calls) + len(second.calls) == 1


async def test_of_many_timers_that_replace_each_other_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers = asyncio.get_running_loop(), list[float]()
    call_at = loop.call_at

    def counted(when: float, callback: Any, *args: Any, **more: Any) -> asyncio.TimerHandle:
        if callback == deadlines()._look:
            timers.append(when)
        return call_at(when, callback, *args, **more)

    monkeypatch.setattr(loop, "call_at", counted)
    await added(60)
    for number in range(9, 0, -1):  # each comes before all others
        deadlines().remove(await added(number * SOON_S))
    assert len(timers) == 10
    await eventually(lambda: loop.time() > max(timers[:10]) + 0.001, "the end of all that were replaced")
    assert len([when for when in timers if when > loop.time()]) <= 1


async def test_work_within_its_limit_is_left_alone() -> None:
    with time_limit(60):
        await asyncio.sleep(0)


@pytest.mark.parametrize("seconds", [0, -1, SOON_S])
async def test_work_over_its_limit_is_cancelled(seconds: float) -> None:
    began = in_s(0)
    with pytest.raises(TimeoutError), time_limit(seconds):
        await asyncio.sleep(60)
    assert in_s(0) - began < ROOM_S
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_the_inner_of_two_limits_ends_the_inner_work_alone() -> None:
    with time_limit(60):
        with pytest.raises(TimeoutError), time_limit(SOON_S):
            await asyncio.sleep(60)
        await asyncio.sleep(0)


async def test_a_cancellation_from_outside_stays_one() -> None:
    async def work() -> None:
        with time_limit(60):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_from_outside_at_the_same_moment_stays_one() -> None:
    async def work() -> None:
        with time_limit(SOON_S):
            try:
                await asyncio.sleep(60)
            finally:
                task.cancel()

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_work_goes_on_as_it_is() -> None:
    with pytest.raises(ValueError, match="mine"), time_limit(60):
        raise ValueError("mine")


def test_the_deadlines_of_a_loop_go_with_it() -> None:
    async def work() -> weakref.ref[object]:
        await added(60)
        return weakref.ref(deadlines())

    found = asyncio.run(work())
    gc.collect()
    assert found() is None
