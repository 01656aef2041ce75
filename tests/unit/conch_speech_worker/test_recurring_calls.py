import asyncio

import pytest

from conch_kit.errors import UpstreamError
from conch_speech_worker.recurring_calls import calling_every


async def nothing() -> None:
    """Do nothing."""


async def test_it_calls_again_and_again_while_the_body_runs_and_not_after() -> None:
    times, often = 0, asyncio.Event()

    async def count() -> None:
        nonlocal times
        times += 1
        if times == 3:
            often.set()

    async with asyncio.timeout(30):
        async with calling_every(0.001, count):
            await often.wait()
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_a_call_raises_ends_the_body_and_is_raised() -> None:
    ended: list[bool] = []

    async def fail() -> None:
        raise ConnectionError("gone")

    async def work() -> None:
        async with asyncio.timeout(30), calling_every(0.001, fail):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

    with pytest.raises(ConnectionError, match="gone"):
        await work()
    task = asyncio.current_task()
    assert task is not None
    assert (ended, task.cancelling()) == ([True], 0)


async def test_a_call_that_fails_as_the_body_ends_leaves_no_cancellation_behind() -> None:
    called, ends = asyncio.Event(), asyncio.Event()

    async def fail() -> None:
        called.set()
        await ends.wait()
        raise ConnectionError("gone")

    async def work() -> None:
        async with asyncio.timeout(30), calling_every(0.001, fail):
            await called.wait()
            ends.set()
            await asyncio.sleep(0)  # the call fails in the step before the one in which the body ends

    with pytest.raises(ConnectionError, match="gone"):
        await work()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_what_the_body_raises_is_raised_with_its_cause() -> None:
    cause, error = OSError("inner"), UpstreamError("outer")
    with pytest.raises(UpstreamError) as caught:
        async with calling_every(60, nothing):
            raise error from cause
    assert caught.value is error
    assert caught.value.__cause__ is cause


async def test_a_cancellation_passes() -> None:
    running = asyncio.Event()

    async def work() -> None:
        async with calling_every(60, nothing):
            running.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    async with asyncio.timeout(30):
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
