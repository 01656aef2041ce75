import asyncio
from collections.abc import Callable

import pytest

from conch_kit.http.request_scope import InFlightRequests, Interruption, overdue, shutting_down

LONG_S = 60


class Caller:
    """The other end of a connection."""

    def __init__(self, *, gone: bool = False) -> None:
        self.gone = gone
        self.on_gone: Callable[[], None] | None = None


def test_the_ends_from_outside_have_codes_of_their_own() -> None:
    ended = shutting_down()
    assert (ended.status, ended.code, ended.retryable) == (503, "server_shutting_down", True)
    assert (overdue().status, overdue().code, overdue().retryable) == (504, "timeout", False)


async def test_the_work_for_a_caller_who_had_gone_before_it_began_is_not_done() -> None:
    requests, done = InFlightRequests(), False
    async with requests.scope(Caller(gone=True)) as work:
        await asyncio.sleep(0)
        done = True
    assert (work.interruption, done, requests.count) == (Interruption.CLIENT_GONE, False, 0)


async def test_a_caller_who_goes_ends_the_work_and_nothing_behind_it() -> None:
    requests, caller = InFlightRequests(), Caller()
    async with requests.scope(caller) as work:
        assert caller.on_gone is not None
        asyncio.get_running_loop().call_soon(caller.on_gone)
        await asyncio.sleep(LONG_S)
    assert work.interruption is Interruption.CLIENT_GONE
    assert (requests.count, caller.on_gone) == (0, None)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_any_other_cancellation_is_the_end_of_the_drain() -> None:
    requests = InFlightRequests()

    async def serve() -> Interruption | None:
        async with requests.scope(Caller()) as work:
            await asyncio.sleep(LONG_S)
        return work.interruption

    served = asyncio.create_task(serve())
    await asyncio.sleep(0)
    assert requests.count == 1
    served.cancel()
    assert await served is Interruption.SHUTTING_DOWN
    assert requests.count == 0


async def test_an_error_of_the_work_passes() -> None:
    requests = InFlightRequests()
    with pytest.raises(ValueError, match="ours"):
        async with requests.scope(Caller()):
            raise ValueError("ours")
    assert requests.count == 0
