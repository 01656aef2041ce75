"""A wait ends with its event or its time, whichever comes first."""

import asyncio

from conch_kit.timed_waits import wait_at_most


async def test_a_wait_ends_with_its_event() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    async with asyncio.timeout(30):
        await wait_at_most(event, 3600)


async def test_a_wait_for_what_does_not_come_ends_in_time() -> None:
    event = asyncio.Event()
    async with asyncio.timeout(30):
        await wait_at_most(event, 0.01)
    assert not event.is_set()


async def test_a_wait_that_is_cancelled_is_cancelled() -> None:
    waiting = asyncio.create_task(wait_at_most(asyncio.Event(), 3600))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
