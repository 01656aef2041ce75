"""Engines that could not take a request are passed over for a while; then one request at a time tries them."""

import asyncio

from conch_contracts.names import ModelId
from conch_contracts.records import RoutingPolicy
from conch_gateway.placement import model_queue
from testkit.gateway.fakes import snapshot
from testkit.gateway.queues import admission, engine, turns

MODEL = ModelId("local/tiny-chat")
POLICY = RoutingPolicy(queue_max=2, queue_wait_s=5)


async def refuse_one(queues):
    """Have the engine refuse the next request."""
    slot = await queues.slot(MODEL, POLICY)
    with slot:
        slot.refused()


async def test_an_engine_that_could_not_take_a_request_is_tried_by_one_at_a_time_until_it_takes_one():
    queues = admission(engine("a", slots=4))
    await refuse_one(queues)
    waiting = [asyncio.create_task(queues.slot(MODEL, POLICY)) for _ in range(2)]
    await turns()
    assert queues.waiting() == {MODEL: 2}
    first = await asyncio.wait_for(waiting[0], 60)
    await turns()
    assert queues.waiting() == {MODEL: 1}
    with first:
        first.accepted()
        with await asyncio.wait_for(waiting[1], 60), await queues.slot(MODEL, POLICY):
            pass


async def test_an_engine_that_takes_requests_again_is_passed_over_no_more(monkeypatch):
    monkeypatch.setattr(model_queue, "PASSED_OVER_S", 0.01)
    queues = admission(engine("a", slots=4))
    first, second = await queues.slot(MODEL, POLICY), await queues.slot(MODEL, POLICY)
    with first, second:
        first.refused()
        second.accepted()  # the other one, which was sent at the same time
        await asyncio.sleep(0.05)  # longer than it would have been passed over
        taken = [asyncio.create_task(queues.slot(MODEL, POLICY)) for _ in range(2)]
        await turns()
        assert all(task.done() for task in taken)


async def test_who_tries_an_engine_and_goes_away_keeps_the_others_from_it_for_a_moment_only(monkeypatch):
    monkeypatch.setattr(model_queue, "TRIAL_S", 0.05)
    queues = admission(engine("a", slots=4))
    await refuse_one(queues)
    waiting = [asyncio.create_task(queues.slot(MODEL, POLICY)) for _ in range(2)]
    with await asyncio.wait_for(waiting[0], 60):
        pass  # without a word
    with await asyncio.wait_for(waiting[1], 60) as given:
        assert given.grpc == "a"


async def test_an_engine_that_is_new_to_the_registry_has_refused_nothing():
    queues = admission(engine("a"))
    await refuse_one(queues)
    queues.apply(snapshot(engines=()))
    queues.apply(snapshot(engines=(engine("a"),)))
    taken = asyncio.create_task(queues.slot(MODEL, POLICY))
    await turns()
    assert taken.done()


async def test_a_refusal_by_an_engine_that_has_left_says_nothing_of_the_next_one_there():
    queues = admission(engine("a"))
    refused = await queues.slot(MODEL, POLICY)
    with refused:
        queues.apply(snapshot(engines=()))
        refused.refused()
    queues.apply(snapshot(engines=(engine("a", slots=4),)))
    taken = [asyncio.create_task(queues.slot(MODEL, POLICY)) for _ in range(2)]
    await turns()
    assert all(task.done() for task in taken)


async def test_a_long_answer_that_comes_whole_keeps_the_others_from_the_engine_for_a_moment_only(monkeypatch):
    monkeypatch.setattr(model_queue, "PASSED_OVER_S", 0.01)
    monkeypatch.setattr(model_queue, "TRIAL_S", 0.05)
    queues = admission(engine("a", slots=4))
    await refuse_one(queues)
    waiting = [asyncio.create_task(queues.slot(MODEL, POLICY)) for _ in range(2)]
    with await asyncio.wait_for(waiting[0], 60), await asyncio.wait_for(waiting[1], 60):
        pass  # while the first says nothing


async def test_an_engine_that_refuses_late_in_its_trial_is_passed_over_once_more(monkeypatch):
    monkeypatch.setattr(model_queue, "PASSED_OVER_S", 0.01)
    queues = admission(engine("a", slots=4))
    await refuse_one(queues)
    monkeypatch.setattr(model_queue, "PASSED_OVER_S", 3600)
    await refuse_one(queues)
    waiting = asyncio.create_task(queues.slot(MODEL, POLICY))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
