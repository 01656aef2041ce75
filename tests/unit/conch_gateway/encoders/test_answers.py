import asyncio

import pytest

from conch_gateway.encoders.answers import NoStore, SharedAnswers
from conch_kit.errors import InvalidRequest, RateLimited, ServiceError, Unavailable, UpstreamTimeout


async def test_who_goes_away_leaves_the_work_to_the_next() -> None:
    answers = SharedAnswers(NoStore())
    begun, never = asyncio.Event(), asyncio.Event()

    async def slow() -> bytes:
        begun.set()
        await never.wait()
        return b"slow"

    async def quick() -> bytes:
        return b"quick"

    first = asyncio.create_task(answers.get(b"x", 1, slow))
    await begun.wait()
    second = asyncio.create_task(answers.get(b"x", 1, quick))
    await asyncio.sleep(0)
    first.cancel()
    shared = await second
    assert (shared.body, shared.hit) == (b"quick", False)


async def test_all_that_wait_hear_that_their_request_is_invalid() -> None:
    answers = SharedAnswers(NoStore())
    go, made = asyncio.Event(), 0

    async def refusing() -> bytes:
        nonlocal made
        made += 1
        await go.wait()
        raise InvalidRequest("No such token.")

    tasks = [asyncio.create_task(answers.get(b"x", 1, refusing)) for _ in range(3)]
    await asyncio.sleep(0)
    go.set()
    for task in tasks:
        with pytest.raises(InvalidRequest):
            await task
    assert made == 1


@pytest.mark.parametrize("error", [Unavailable("No engine."), RateLimited("Full."), UpstreamTimeout("Too late.")])
async def test_a_failure_is_its_own_and_the_next_in_line_computes(error: ServiceError) -> None:
    answers = SharedAnswers(NoStore())
    go = asyncio.Event()

    async def failing() -> bytes:
        await go.wait()
        raise error

    async def quick() -> bytes:
        return b"quick"

    first = asyncio.create_task(answers.get(b"x", 1, failing))
    await asyncio.sleep(0)
    second = asyncio.create_task(answers.get(b"x", 1, quick))
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(type(error)):
        await first
    shared = await second
    assert (shared.body, shared.hit) == (b"quick", False)


async def test_different_requests_do_not_share() -> None:
    answers = SharedAnswers(NoStore())

    async def make(body: bytes) -> bytes:
        return body

    both = await asyncio.gather(answers.get(b"x", 1, lambda: make(b"a")), answers.get(b"y", 1, lambda: make(b"b")))
    assert [shared.body for shared in both] == [b"a", b"b"]
