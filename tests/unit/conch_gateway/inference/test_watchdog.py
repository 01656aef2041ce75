import asyncio
import gc
import time
import weakref
from contextlib import suppress

import pytest

from conch_gateway.inference.watchdog import (
    ClientStalled,
    RequestActivity,
    RequestWatchdog,
    WatchdogLimits,
    WatchdogVerdict,
    decide,
)
from conch_kit.errors import UpstreamTimeout
from conch_kit.http.asgi import ClientGone
from testkit.gateway.fakes import FakeConnection
from testkit.waiting import eventually

LIMITS = WatchdogLimits(deadline=200, keep_alive_s=15)


@pytest.mark.parametrize(
    ("activity", "verdict"),
    [
        (RequestActivity(sent=90), WatchdogVerdict.NOTHING),
        (RequestActivity(sent=80), WatchdogVerdict.KEEP_ALIVE),
        (RequestActivity(sent=80, sending=80), WatchdogVerdict.NOTHING),
        (RequestActivity(sent=60, asked=60, patience_s=30, sending=70), WatchdogVerdict.NOTHING),
        (RequestActivity(sent=60, asked=70, patience_s=30), WatchdogVerdict.WORKER_UNRESPONSIVE),
        (RequestActivity(sent=90, asked=90, patience_s=30), WatchdogVerdict.NOTHING),
    ],
)
def test_a_look_at_the_clock_says_what_to_do(activity, verdict):
    assert decide(100, activity, LIMITS) is verdict
    late = WatchdogVerdict.NOTHING if activity.sending else WatchdogVerdict.OVERDUE
    assert decide(200, activity, LIMITS) is late


def watching(client, *, deadline=1e12):
    return RequestWatchdog(client, None, WatchdogLimits(deadline=deadline, keep_alive_s=60))


@pytest.fixture
def client():
    return FakeConnection([], lambda: True)


async def test_a_client_that_had_gone_before_is_not_worked_for(client):
    client.hang_up()
    with pytest.raises(ClientGone):
        async with watching(client):
            pytest.fail("There is nobody to work for.")


async def test_a_client_that_goes_ends_the_work_and_leaves_no_cancellation_behind(client):
    asyncio.get_running_loop().call_soon(client.hang_up)
    with pytest.raises(ClientGone):
        async with watching(client):
            await asyncio.Event().wait()
    assert asyncio.current_task().cancelling() == 0
    assert client.on_gone is None


async def test_what_worked_for_a_client_that_went_is_freed_without_the_garbage_collector(client):
    async def work():
        async def comment():
            """Stand for what a request holds."""

        asyncio.get_running_loop().call_soon(client.hang_up)
        with suppress(ClientGone):
            async with RequestWatchdog(client, comment, WatchdogLimits(deadline=1e12, keep_alive_s=60)):
                await asyncio.Event().wait()
        return weakref.ref(comment)

    gc.disable()
    try:
        held = await asyncio.create_task(work())
        assert held() is None
    finally:
        gc.enable()


async def test_the_first_reason_is_the_one_and_leaves_no_cancellation_behind(client):
    def end_twice():
        client.hang_up()
        client.hang_up()

    asyncio.get_running_loop().call_soon(end_twice)
    with pytest.raises(ClientGone):
        async with watching(client):
            await asyncio.Event().wait()
    assert asyncio.current_task().cancelling() == 0


async def test_a_cancellation_from_outside_goes_on_though_the_client_went_as_well(client):
    async def work():
        async with watching(client):
            client.hang_up()
            asyncio.current_task().cancel()
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(work())


async def test_a_client_that_does_not_read_a_sign_of_life_ends_the_work(client):
    async def unread():
        raise ClientStalled

    limits = WatchdogLimits(deadline=1e12, keep_alive_s=0.03)
    with pytest.raises(ClientStalled):
        async with asyncio.timeout(30), RequestWatchdog(client, unread, limits):
            await asyncio.Event().wait()


async def test_a_sign_of_life_that_waits_for_its_client_ends_with_the_work(client):
    began, ended, read = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def waiting():
        began.set()
        try:
            await read.wait()
        finally:
            ended.set()

    async with asyncio.timeout(30), RequestWatchdog(client, waiting, WatchdogLimits(deadline=1e12, keep_alive_s=0.03)):
        await began.wait()
    await asyncio.wait_for(ended.wait(), 30)


async def test_no_sign_of_life_follows_the_end_of_the_work(client):
    told = []

    def telling(name):
        async def tell():
            told.append(name)

        return RequestWatchdog(client, tell, WatchdogLimits(deadline=1e12, keep_alive_s=0.03))

    async with telling("over"):
        pass
    async with telling("under way"):
        await eventually(lambda: told.count("under way") >= 2, "two signs of life")
    assert "over" not in told


async def test_work_without_end_is_ended_at_its_deadline(client):
    with pytest.raises(UpstreamTimeout):
        async with asyncio.timeout(15), watching(client, deadline=time.monotonic() + 0.05):  # before the next comment
            await asyncio.Event().wait()
