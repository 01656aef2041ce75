import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from conch_contracts.names import CACHE_PREFIX
from conch_gateway.encoders.answer_cache import (
    MAX_BYTES,
    PATIENCE_S,
    Computation,
    NoStore,
    RedisStore,
    Shared,
    SharedAnswers,
)
from conch_gateway.placement.time_left import TimeLeft
from conch_kit.errors import InvalidRequest, RateLimited, ServiceError, Unavailable, UpstreamTimeout
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from testkit.clock import FakeClock


async def get(
    answers: SharedAnswers,
    key: str,
    make: Callable[[Computation], Awaitable[bytes]],
    *,
    wait_s: float = 60.0,
    priority: int = 0,
) -> Shared:
    async with answers.get(key, 1, make, TimeLeft(wait_s), priority=priority) as shared:
        return shared


async def test_who_goes_away_leaves_the_work_to_the_next() -> None:
    answers = SharedAnswers(NoStore())
    begun, never = asyncio.Event(), asyncio.Event()

    async def slow(_: Computation) -> bytes:
        begun.set()
        await never.wait()
        return b"slow"

    async def quick(_: Computation) -> bytes:
        return b"quick"

    first = asyncio.create_task(get(answers, "x", slow))
    await begun.wait()
    second = asyncio.create_task(get(answers, "x", quick))
    await asyncio.sleep(0)
    first.cancel()
    shared = await second
    assert (shared.body, shared.hit) == (b"quick", False)


async def test_all_that_wait_hear_that_their_request_is_invalid() -> None:
    answers = SharedAnswers(NoStore())
    go, made = asyncio.Event(), 0

    async def refusing(_: Computation) -> bytes:
        nonlocal made
        made += 1
        await go.wait()
        raise InvalidRequest("No such token.")

    tasks = [asyncio.create_task(get(answers, "x", refusing)) for _ in range(3)]
    await asyncio.sleep(0)
    go.set()
    for task in tasks:
        with pytest.raises(InvalidRequest):
            await task
    assert made == 1


async def test_an_error_that_nobody_waits_for_is_not_logged() -> None:
    async def refusing(_: Computation) -> bytes:
        raise InvalidRequest("No such token.")

    logged: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
    with pytest.raises(InvalidRequest):
        await get(SharedAnswers(NoStore()), "x", refusing)
    gc.collect()
    assert logged == []


@pytest.mark.parametrize("error", [Unavailable("No engine."), RateLimited("Full."), UpstreamTimeout("Too late.")])
async def test_a_failure_is_its_own_and_the_next_in_line_computes(error: ServiceError) -> None:
    answers = SharedAnswers(NoStore())
    go = asyncio.Event()

    async def failing(_: Computation) -> bytes:
        await go.wait()
        raise error

    async def quick(_: Computation) -> bytes:
        return b"quick"

    first = asyncio.create_task(get(answers, "x", failing))
    await asyncio.sleep(0)
    second = asyncio.create_task(get(answers, "x", quick))
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(type(error)):
        await first
    shared = await second
    assert (shared.body, shared.hit) == (b"quick", False)


class Kept(NoStore):
    """Holds the answers that it is given."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}

    async def get(self, key: str) -> bytes | None:
        return self.answers.get(key)


async def fails_while_another_is_answered(error: ServiceError, after_s: float) -> Shared:
    """Fail after a time in which somebody else's answer has come to the store."""
    clock, store = FakeClock(), Kept()

    async def failing(_: Computation) -> bytes:
        clock.advance(after_s)
        store.answers["x"] = b"theirs"
        raise error

    return await get(SharedAnswers(store, clock), "x", failing)


@pytest.mark.parametrize("error", [Unavailable("No engine."), RateLimited("Full."), UpstreamTimeout("Too late.")])
async def test_who_waited_in_vain_takes_the_answer_that_somebody_else_has_got_meanwhile(error: ServiceError) -> None:
    assert await fails_while_another_is_answered(error, after_s=1) == Shared(b"theirs", hit=True)


@pytest.mark.parametrize(("error", "after_s"), [(RateLimited("Full."), 0.0), (InvalidRequest("No such token."), 1.0)])
async def test_who_is_refused_at_once_or_is_invalid_costs_the_store_no_second_look(
    error: ServiceError, after_s: float
) -> None:
    with pytest.raises(type(error)):
        await fails_while_another_is_answered(error, after_s)


async def test_different_requests_do_not_share() -> None:
    answers = SharedAnswers(NoStore())

    async def make(body: bytes) -> bytes:
        return body

    both = await asyncio.gather(get(answers, "x", lambda _: make(b"a")), get(answers, "y", lambda _: make(b"b")))
    assert [shared.body for shared in both] == [b"a", b"b"]


async def test_a_new_answer_is_kept_only_after_it_was_given_and_shared_until_then() -> None:
    kept: list[bytes] = []

    class Store(NoStore):
        async def put(self, key: str, body: bytes, ttl_s: float) -> None:
            kept.append(body)

    answers = SharedAnswers(Store())

    async def make(_: Computation) -> bytes:
        return b"made"

    async with answers.get("x", 1, make, TimeLeft(60)) as first:
        assert (first.hit, kept) == (False, [])
        assert (await get(answers, "x", make)).hit
    assert kept == [b"made"]
    assert not (await get(answers, "x", make)).hit


async def test_an_answer_that_could_not_be_given_is_not_kept() -> None:
    class Store(NoStore):
        async def put(self, key: str, body: bytes, ttl_s: float) -> None:
            raise AssertionError(key)

    async def make(_: Computation) -> bytes:
        return b"made"

    with pytest.raises(Unavailable):
        async with SharedAnswers(Store()).get("x", 1, make, TimeLeft(60)):
            raise Unavailable("The answer is broken.")


@pytest.mark.parametrize(("size", "kept"), [(MAX_BYTES, True), (MAX_BYTES + 1, False)])
async def test_an_answer_that_is_too_large_is_given_and_not_kept(size: int, kept: bool) -> None:
    written: list[str] = []

    class Notes(NoStore):
        async def put(self, key: str, body: bytes, ttl_s: float) -> None:
            written.append(key)

    async def large(_: Computation) -> bytes:
        return b"x" * size

    assert len((await get(SharedAnswers(Notes()), "x", large)).body) == size
    assert written == (["x"] if kept else [])


async def test_one_that_waits_and_goes_away_takes_the_answer_from_nobody() -> None:
    answers, go = SharedAnswers(NoStore()), asyncio.Event()

    async def slow(_: Computation) -> bytes:
        await go.wait()
        return b"slow"

    makes, goes, stays = (asyncio.create_task(get(answers, "x", slow)) for _ in range(3))
    await asyncio.sleep(0)
    goes.cancel()
    await asyncio.sleep(0)
    go.set()
    assert ((await makes).body, (await stays).body) == (b"slow", b"slow")
    assert (await stays).hit


@pytest.mark.parametrize(("wait_s", "priority"), [(0.01, 0), (60.0, -1)], ids=["its time is over", "it is more urgent"])
async def test_nobody_waits_for_the_turn_of_another_longer_than_for_its_own(wait_s: float, priority: int) -> None:
    answers, turn = SharedAnswers(NoStore()), asyncio.Event()

    async def queued(computation: Computation) -> bytes:
        await turn.wait()
        computation.begins(may_be_kept=True)
        return b"queued"

    async def own(_: Computation) -> bytes:
        return b"own"

    first = asyncio.create_task(get(answers, "x", queued))
    await asyncio.sleep(0)
    second = get(answers, "x", own, wait_s=wait_s, priority=priority)
    assert (await asyncio.wait_for(second, 30)).body == b"own"
    patient = asyncio.create_task(get(answers, "x", own, priority=1))
    await asyncio.sleep(0)
    turn.set()
    assert [(await each).body for each in (first, patient)] == [b"queued"] * 2


async def test_what_an_engine_works_on_is_waited_for_by_all() -> None:
    answers, go = SharedAnswers(NoStore()), asyncio.Event()

    async def slow(computation: Computation) -> bytes:
        computation.begins(may_be_kept=True)
        await go.wait()
        return b"slow"

    async def never(_: Computation) -> bytes:
        raise AssertionError("It is computed already.")

    first = asyncio.create_task(get(answers, "x", slow))
    await asyncio.sleep(0)
    others = [asyncio.create_task(get(answers, "x", never, wait_s=0, priority=-1)) for _ in range(3)]
    await asyncio.sleep(0.01)
    go.set()
    assert [(await each).body for each in (first, *others)] == [b"slow"] * 4


async def test_an_urgent_one_does_not_stay_with_a_batch_whose_engine_refused_it() -> None:
    answers, begun, refused, go = SharedAnswers(NoStore()), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def batch(computation: Computation) -> bytes:
        computation.begins(may_be_kept=True)
        begun.set()
        await refused.wait()
        computation.waits_again()
        await go.wait()
        return b"batch"

    async def own(_: Computation) -> bytes:
        return b"own"

    first = asyncio.create_task(get(answers, "x", batch, priority=10))
    await begun.wait()
    urgent = asyncio.create_task(get(answers, "x", own, priority=0))
    patient = asyncio.create_task(get(answers, "x", own, priority=10))
    hasty = asyncio.create_task(get(answers, "x", own, priority=10, wait_s=0.01))
    await asyncio.sleep(0.03)
    assert not urgent.done()
    refused.set()
    assert (await asyncio.wait_for(urgent, 30)).body == b"own"
    assert (await asyncio.wait_for(hasty, 30)).body == b"own"
    go.set()
    assert [(await each).body for each in (first, patient)] == [b"batch"] * 2


async def test_urgent_ones_share_among_themselves_what_they_do_not_leave_to_a_batch() -> None:
    answers, turn, made = SharedAnswers(NoStore()), asyncio.Event(), 0

    async def queued(_: Computation) -> bytes:
        nonlocal made
        made += 1
        await turn.wait()
        return b"queued"

    tasks = [asyncio.create_task(get(answers, "x", queued, priority=priority)) for priority in (10, *[0] * 20)]
    await asyncio.sleep(0.01)
    turn.set()
    assert {(await task).body for task in tasks} == {b"queued"}
    assert made == 2


async def test_those_that_wait_one_after_the_other_have_one_wait_each() -> None:
    """The first in line fails when its time is over; whoever has come with it has none left either."""
    answers, waits = SharedAnswers(NoStore()), [TimeLeft(0.05) for _ in range(4)]

    async def ask(wait: TimeLeft) -> float:
        async def queued(_: Computation) -> bytes:
            left_s.append(wait.seconds())
            with wait:
                await asyncio.sleep(wait.seconds())
            raise Unavailable("No engine was free.")

        left_s = list[float]()
        with pytest.raises(Unavailable):
            async with answers.get("x", 1, queued, wait):
                pass
        return left_s[0]

    first, *others = await asyncio.gather(*(ask(wait) for wait in waits))
    assert first > 0.04
    assert max(others) < 0.04


async def test_an_answer_of_another_model_than_was_asked_is_not_kept() -> None:
    class Store(NoStore):
        async def put(self, key: str, body: bytes, ttl_s: float) -> None:
            raise AssertionError(key)

    async def make(computation: Computation) -> bytes:
        computation.begins(may_be_kept=False)
        return b"made"

    assert (await get(SharedAnswers(Store()), "x", make)).body == b"made"


async def test_only_what_was_written_under_its_own_key_and_whole_is_an_answer() -> None:
    values: dict[str, bytes] = {}

    class Redis:
        async def execute(self, command: str, key: str, *value: bytes, timeout_s: float) -> bytes | None:
            if command == "SET":
                values[key] = value[0]
            return values.get(key)

    store = RedisStore(Redis())  # type: ignore[arg-type]
    await store.put("mine", b"answer", 1)
    assert await store.get("mine") == b"answer"
    values[CACHE_PREFIX + "yours"] = values[CACHE_PREFIX + "mine"]
    assert await store.get("yours") is None
    for spoiled in (values[CACHE_PREFIX + "mine"][:-1], b"answer", b""):
        values[CACHE_PREFIX + "mine"] = spoiled
        assert await store.get("mine") is None


@pytest.mark.parametrize("failure", [None, RegistryUnavailable("away"), RegistryError("no")])
async def test_redis_has_little_time_and_its_absence_costs_the_cache_alone(failure: Exception | None) -> None:
    class Redis:
        async def execute(self, *command: object, timeout_s: float | None = None) -> None:
            given.append(timeout_s)
            if failure is not None:
                raise failure

    given: list[float | None] = []
    store = RedisStore(Redis())
    assert await store.get("key") is None
    await store.put("key", b"{}", 60)
    assert given == [PATIENCE_S, PATIENCE_S]
