"""Slots, the queue, and what happens to those who wait."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import RoutingPolicy
from conch_gateway.inference.watchdog import ClientStalled
from conch_gateway.placement.admission import Admission
from conch_gateway.placement.claim import Claim
from conch_gateway.placement.holds import Hold
from conch_kit.errors import RateLimited, Unavailable
from testkit.clock import FakeClock
from testkit.gateway.fakes import route, snapshot
from testkit.gateway.queues import admission, engine, turns

MODEL = ModelId("local/tiny-chat")
POLICY = RoutingPolicy(queue_max=2, queue_wait_s=5)


async def hold(queues, log, name, release, policy=POLICY):
    with await queues.slot(MODEL, policy) as given:
        log.append((name, given.grpc))
        await release.wait()


async def test_the_engine_with_the_smallest_share_taken_is_chosen():
    queues = admission(engine("a", 4), engine("b", 2))
    async with AsyncExitStack() as stack:
        given = [stack.enter_context(await queues.slot(MODEL, POLICY)).grpc for _ in range(6)]
    assert sorted(given) == ["a"] * 4 + ["b"] * 2
    assert set(given[:2]) == {"a", "b"}


async def test_waiters_are_served_first_come_first_served():
    queues, log = admission(engine("a")), []
    releases = [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(hold(queues, log, n, releases[n])) for n in range(3)]
    await turns()
    assert log == [(0, "a")]
    assert queues.waiting() == {MODEL: 2}
    for release in releases:
        release.set()
    await asyncio.gather(*tasks)
    assert [name for name, _ in log] == [0, 1, 2]


async def test_the_more_urgent_go_first_and_equals_in_the_order_in_which_they_came():
    queues, log, release = admission(engine("a")), [], asyncio.Event()
    policy = RoutingPolicy(queue_max=10, queue_wait_s=5)

    async def claim(name, priority):
        with await queues.slot(MODEL, policy, Claim(priority=priority)):
            log.append(name)
            await release.wait()

    asked = [("holds it", 0), ("plain", 0), ("later", 5), ("second", -1), ("first", -2), ("third", -1)]
    tasks = []
    for name, priority in asked:
        tasks.append(asyncio.create_task(claim(name, priority)))
        await turns()
    release.set()
    await asyncio.gather(*tasks)
    assert log == ["holds it", "first", "second", "third", "plain", "later"]


async def test_a_request_takes_a_slot_for_each_of_its_choices_and_at_most_all():
    queues, log = admission(engine("a", 4)), []

    async def enter(stack, name, sequences):
        stack.enter_context(await queues.slot(MODEL, POLICY, Claim(sequences)))
        log.append(name)

    async with AsyncExitStack() as first, AsyncExitStack() as second, AsyncExitStack() as third:
        await enter(first, "three", 3)
        await enter(second, "one", 1)
        waiting = asyncio.create_task(enter(third, "many", 50))
        await first.aclose()
        await turns()
        assert log == ["three", "one"]
        await second.aclose()
        await waiting
        assert log[2] == "many"
    with await queues.slot(MODEL, POLICY, Claim(4)):
        pass


async def test_who_waits_for_one_engine_holds_up_nobody_who_can_use_another():
    queues, log, release = admission(engine("a"), engine("b")), [], asyncio.Event()
    tried = frozenset({EngineAddress("b")})

    async def retry():
        with await queues.slot(MODEL, POLICY, without=tried) as given:
            log.append(("retry", given.grpc))

    with await queues.slot(MODEL, POLICY, without=tried):
        retrying = asyncio.create_task(retry())
        await turns()
        holder = asyncio.create_task(hold(queues, log, "new", release))
        await turns()
        assert log == [("new", "b")]
    release.set()
    await asyncio.gather(retrying, holder)
    assert log[1] == ("retry", "a")


async def test_who_needs_few_slots_does_not_overtake_who_waits_for_many():
    queues = admission(engine("a", 2))
    with await queues.slot(MODEL, POLICY):
        many = asyncio.create_task(queues.slot(MODEL, POLICY, Claim(2)))
        await turns()
        few = asyncio.create_task(queues.slot(MODEL, POLICY))
        await turns()
        assert queues.waiting() == {MODEL: 2}
    with await asyncio.wait_for(many, 30):
        await turns()
        assert not few.done()
    with await asyncio.wait_for(few, 30):
        pass


async def test_a_full_queue_refuses_with_a_hint():
    queues, release = admission(engine("a")), asyncio.Event()
    tasks = [asyncio.create_task(hold(queues, [], n, release)) for n in range(3)]
    await turns()
    with pytest.raises(RateLimited) as caught:
        await hold(queues, [], 3, release)
    assert caught.value.retry_after_s
    release.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize(("priority", "sent_away"), [(-1, "last"), (0, "newcomer"), (1, "newcomer")])
async def test_in_a_full_queue_the_least_urgent_makes_room(priority: int, sent_away: str) -> None:
    queues = admission(engine("a"))
    held = await queues.slot(MODEL, POLICY)
    first, last = (asyncio.create_task(queues.slot(MODEL, POLICY)) for _ in range(2))
    await turns()
    newcomer = asyncio.create_task(queues.slot(MODEL, POLICY, Claim(priority=priority)))
    await turns()
    refused = {"last": last, "newcomer": newcomer}.pop(sent_away)
    with pytest.raises(RateLimited):
        await refused
    assert queues.waiting() == {MODEL: 2}
    with held:
        pass
    for served in (newcomer, first) if refused is last else (first, last):
        with await served:
            pass


async def test_waiting_too_long_is_a_503_and_leaves_no_waiter():
    queues, release = admission(engine("a")), asyncio.Event()
    task = asyncio.create_task(hold(queues, [], 0, release))
    await turns()
    with pytest.raises(Unavailable):
        await hold(queues, [], 1, release, RoutingPolicy(queue_wait_s=0.01))
    assert queues.waiting() == {MODEL: 0}
    release.set()
    await task


async def test_a_cancelled_waiter_gives_its_place_to_the_next():
    queues, log = admission(engine("a")), []
    releases = [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(hold(queues, log, n, releases[n])) for n in range(3)]
    await turns()
    tasks[1].cancel()
    releases[0].set()
    await turns()
    assert [name for name, _ in log] == [0, 2]
    releases[2].set()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_waiter_cancelled_in_the_moment_of_its_grant_returns_the_slot():
    queues, log = admission(engine("a")), []
    first, second = asyncio.Event(), asyncio.Event()
    holder = asyncio.create_task(hold(queues, log, 0, first))
    waiter = asyncio.create_task(hold(queues, log, 1, second))
    await turns()
    first.set()
    await asyncio.sleep(0)  # the holder gives back, the waiter is granted but has not run
    waiter.cancel()
    await asyncio.gather(holder, waiter, return_exceptions=True)
    with await queues.slot(MODEL, POLICY) as given:
        assert given.grpc == "a"


async def test_a_slot_that_comes_free_before_a_cancelled_waiter_has_left_goes_to_the_next():
    queues = admission(engine("a"))
    held = await queues.slot(MODEL, POLICY)
    gone, waits = (asyncio.create_task(queues.slot(MODEL, POLICY)) for _ in range(2))
    await turns()
    gone.cancel()
    with held:
        pass
    with await waits as given:
        assert given.grpc == "a"
    assert gone.cancelled()


async def test_a_new_engine_serves_those_who_wait():
    queues, log, release = admission(engine("a")), [], asyncio.Event()
    tasks = [asyncio.create_task(hold(queues, log, n, release)) for n in range(2)]
    await turns()
    queues.apply(snapshot(engines=(engine("a"), engine("b"))))
    await turns()
    assert log == [(0, "a"), (1, "b")]
    release.set()
    await asyncio.gather(*tasks)


async def test_a_model_without_an_engine_is_not_ready():
    with pytest.raises(Unavailable) as caught, await admission().slot(MODEL, POLICY):
        pass
    assert caught.value.code == "model_not_ready"


async def test_requests_wait_in_order_for_an_engine_that_has_vanished_and_comes_back():
    queues, log, release = admission(engine("a")), [], asyncio.Event()
    queues.apply(snapshot(engines=()))
    tasks = []
    for number in range(2):
        tasks.append(asyncio.create_task(hold(queues, log, number, release)))
        await turns()
    with pytest.raises(RateLimited):  # the queue is as long as ever
        await hold(queues, log, 2, release)
    assert queues.waiting() == {MODEL: 2}
    release.set()
    queues.apply(snapshot(engines=(engine("b"),)))
    await asyncio.gather(*tasks)
    assert log == [(0, "b"), (1, "b")]


async def test_a_model_whose_engine_has_been_away_for_longer_than_requests_wait_is_not_ready():
    clock = FakeClock()
    queues = Admission(clock)
    queues.apply(snapshot(engines=(engine("a"),)))
    clock.advance(100)
    queues.apply(snapshot(engines=()))
    clock.advance(POLICY.queue_wait_s)
    with pytest.raises(Unavailable) as caught:
        await queues.slot(MODEL, POLICY)
    assert caught.value.code == "model_not_ready"


@pytest.mark.parametrize(("busy", "code"), [(True, "overloaded"), (False, "model_not_ready")])
async def test_who_has_waited_in_vain_is_told_whether_there_is_an_engine_at_all(busy, code):
    queues = admission(engine("a"))
    with await queues.slot(MODEL, POLICY):
        if not busy:
            queues.apply(snapshot(engines=()))
        with pytest.raises(Unavailable) as caught:
            await queues.slot(MODEL, RoutingPolicy(queue_wait_s=0.01), wait_s=0.001)
    assert caught.value.code == code


async def test_who_waits_when_the_last_engine_vanishes_waits_for_the_next_from_then():
    clock = FakeClock()
    queues, policy = Admission(clock), RoutingPolicy(queue_wait_s=60)
    queues.apply(snapshot(engines=(engine("a"),)))
    with await queues.slot(MODEL, policy):
        waiting = asyncio.create_task(queues.slot(MODEL, policy, wait_s=1))
        await turns()
        queues.apply(snapshot(engines=()))
        await asyncio.wait([waiting], timeout=1.5)
        assert queues.waiting() == {MODEL: 1}, "its own second is over"
        queues.apply(snapshot(engines=(engine("b"),)))
        assert (await asyncio.wait_for(waiting, 30)).engine == engine("b")


async def test_and_waits_on_where_that_one_has_come_and_is_busy():
    queues, policy = admission(engine("a")), RoutingPolicy(queue_wait_s=60)
    with await queues.slot(MODEL, policy):
        waiting = asyncio.create_task(queues.slot(MODEL, policy, wait_s=1))
        await turns()
        queues.apply(snapshot(engines=()))
        urgent = asyncio.create_task(queues.slot(MODEL, policy, Claim(priority=-1)))
        await turns()
        queues.apply(snapshot(engines=(engine("b"),)))
        with await asyncio.wait_for(urgent, 30):
            await asyncio.wait([waiting], timeout=1.5)
            assert queues.waiting() == {MODEL: 1}, "its own second is over"
        assert (await asyncio.wait_for(waiting, 30)).engine == engine("b")


async def test_who_says_how_long_it_waits_waits_no_longer():
    queues, policy = admission(engine("a")), RoutingPolicy(queue_wait_s=60)
    with await queues.slot(MODEL, policy):
        waiting = asyncio.create_task(queues.slot(MODEL, policy, Claim(max_wait_s=0.5)))
        await turns()
        queues.apply(snapshot(engines=()))
        with pytest.raises(Unavailable):
            await asyncio.wait_for(waiting, 30)


async def test_nobody_waits_for_a_model_that_is_scaled_to_none():
    queues, release = admission(engine("a")), asyncio.Event()
    tasks = [asyncio.create_task(hold(queues, [], number, release)) for number in range(2)]
    await turns()
    stopped = route(engines_wanted=False)
    queues.apply(snapshot(stopped, engines=(engine("a"),)))
    assert queues.waiting() == {MODEL: 1}  # the last engine still takes them
    queues.apply(snapshot(stopped, engines=()))
    for asked in (tasks[1], asyncio.create_task(hold(queues, [], 2, release))):
        with pytest.raises(Unavailable) as caught:
            await asyncio.wait_for(asked, 60)
        assert caught.value.code == "model_not_ready"
    queues.apply(snapshot(engines=()))
    waiting = asyncio.create_task(hold(queues, [], 3, release))
    await turns()
    assert queues.waiting() == {MODEL: 1}  # it is wanted again
    release.set()
    queues.apply(snapshot(engines=(engine("b"),)))
    await asyncio.gather(tasks[0], waiting)


async def test_a_request_that_comes_back_has_kept_its_place():
    queues, log = admission(engine("a")), []

    async def ask(name, arrived):
        with await queues.slot(MODEL, RoutingPolicy(queue_max=9, queue_wait_s=50), arrived=arrived):
            log.append(name)

    with await queues.slot(MODEL, POLICY):
        tasks = []
        for name, arrived in (("second", 2.0), ("third", 3.0), ("first", 1.0)):
            tasks.append(asyncio.create_task(ask(name, arrived)))
            await turns()
    await asyncio.gather(*tasks)
    assert log == ["first", "second", "third"]


async def test_a_stream_that_was_held_waits_for_a_slot_no_longer_than_any_other():
    async def hear(left_s):
        """Be told."""

    clock = FakeClock()
    queues, model = Admission(clock), route(wakes=True, hold_max=9)
    queues.apply(snapshot(model, engines=()))
    ended = []
    hold = Hold(10_000.0, ended.append, hear, first_word_s=0.01, next_word_s=0.01)
    held = [asyncio.create_task(queues.slot(MODEL, POLICY, Claim(hold=lambda: hold))) for _ in range(2)]
    await turns()
    queues.apply(snapshot(model, engines=(engine("a"),)))
    with await held[0]:
        clock.advance(POLICY.queue_wait_s + 1)
        with pytest.raises(Unavailable, match="No engine was free within 5 s"):
            await asyncio.wait_for(held[1], 30)
    assert ended == [0.0, POLICY.queue_wait_s + 1]


async def test_a_client_that_does_not_read_that_an_engine_starts_is_held_no_longer():
    async def unread(left_s):
        raise ClientStalled

    queues = Admission()
    queues.apply(snapshot(route(wakes=True), engines=()))
    hold = Hold(60.0, lambda seconds: None, unread, first_word_s=0.0)
    with pytest.raises(ClientStalled):
        await queues.slot(MODEL, POLICY, Claim(hold=lambda: hold))
    assert queues.waiting() == {MODEL: 0}
