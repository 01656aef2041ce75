"""Calls that all share who ask for the same."""

import asyncio

import pytest

from conch_kit.shared_calls import SharedCalls
from testkit.waiting import eventually


async def test_a_call_is_made_once_for_all_who_ask_and_goes_on_without_those_who_go() -> None:
    calls, goes_on, begun = SharedCalls[str, int](), asyncio.Event(), list[str]()

    async def call() -> int:
        begun.append("a")
        await goes_on.wait()
        return len(begun)

    first, second = (asyncio.create_task(calls.run("a", call)) for _ in range(2))
    async with asyncio.timeout(30):
        await eventually(lambda: begun == ["a"], "the call")
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        goes_on.set()
        assert await second == 1
        assert await calls.run("a", call) == 2  # the one before has ended


async def test_what_it_raises_is_raised_for_each_and_the_next_one_begins_anew() -> None:
    calls, begun = SharedCalls[str, None](), list[str]()

    async def call() -> None:
        begun.append("a")
        raise ConnectionError("gone")

    said = await asyncio.gather(*(calls.run("a", call) for _ in range(3)), return_exceptions=True)
    assert [str(error) for error in said] == ["gone"] * 3
    assert begun == ["a"]
    with pytest.raises(ConnectionError):
        await calls.run("a", call)
    assert begun == ["a", "a"]
