"""Tasks that run side by side leave nothing behind: no task, no lost cancellation and none too many."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from conch_kit.side_by_side import EndedByItself, end, together, until_first_ends


class Ended:
    """Waits for good, and notes that it was ended; that takes it a moment."""

    def __init__(self) -> None:
        self.noted = False

    async def wait(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            self.noted = True


async def fail() -> None:
    await asyncio.sleep(0)
    raise ValueError("so")


async def give(value: int) -> int:
    return value


async def test_all_results_come_in_their_order() -> None:
    assert await together(give(1), give(2), give(3)) == (1, 2, 3)
    assert await together() == ()


@pytest.mark.parametrize("run", [together, until_first_ends])
async def test_a_failure_ends_the_others_first_and_a_timeout_after_it_is_a_timeout(
    run: Callable[..., Awaitable[object]],
) -> None:
    other = Ended()
    with pytest.raises(ValueError, match="so"):
        await run(fail(), other.wait())
    assert other.noted
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()


@pytest.mark.parametrize("run", [together, until_first_ends])
async def test_a_cancellation_ends_all_and_is_passed_on(run: Callable[..., Awaitable[object]]) -> None:
    first, second = Ended(), Ended()

    async def caller() -> None:
        await run(first.wait(), second.wait())

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert first.noted
    assert second.noted


async def test_the_first_end_ends_the_others() -> None:
    other = Ended()
    await until_first_ends(asyncio.sleep(0), other.wait())
    assert other.noted


async def test_a_failure_while_it_is_ended_is_raised() -> None:
    async def fails_at_its_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("at its end")

    with pytest.raises(ValueError, match="at its end"):
        await until_first_ends(asyncio.sleep(0), fails_at_its_end())


async def test_what_is_cancelled_by_itself_is_no_good_end() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    other = Ended()
    with pytest.raises(EndedByItself, match="cancelled"):
        await until_first_ends(cancelled(), other.wait())
    assert other.noted


async def test_a_caller_that_is_cancelled_while_it_ends_a_task_is_cancelled() -> None:
    slow = Ended()
    task = asyncio.create_task(slow.wait())
    await asyncio.sleep(0)

    async def caller() -> None:
        await end(task)

    ending = asyncio.create_task(caller())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait([ending])
    assert ending.cancelled()
    await asyncio.wait([task])
    assert slow.noted


async def test_what_a_task_raises_when_it_is_ended_is_raised() -> None:
    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    with pytest.raises(ValueError, match="so"):
        await end(task)
