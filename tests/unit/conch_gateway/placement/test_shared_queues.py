"""The queues of a gateway that hears of others: admission, the queue of a model, and the shares of slots together."""

import asyncio
from dataclasses import replace

from conch_contracts.names import EngineAddress, ModelId
from conch_contracts.records import Engine, GatewayLoad, ModelDemand, RoutingPolicy
from conch_gateway.placement.admission import Admission
from conch_gateway.placement.claim import Claim
from conch_kit.registry.load_reader import OtherLoads
from testkit.clock import FakeClock
from testkit.gateway.fakes import snapshot
from testkit.gateway.queues import admission
from testkit.waiting import eventually

MODEL = ModelId("local/tiny-chat")
POLICY = RoutingPolicy(queue_max=50, queue_wait_s=60)
A, B = EngineAddress("a"), EngineAddress("b")


def _say(queues: Admission, *, away: bool = False, queued: int = 0, **taken: int) -> None:
    """Let the queues hear what another gateway has taken of each engine."""
    slots = {EngineAddress(name): count for name, count in taken.items()}
    demand = ModelDemand(in_flight=sum(slots.values()), queued=queued, taken=slots)
    queues.apply_others(OtherLoads((GatewayLoad(id="other", sequence=1, models={MODEL: demand}),), away))


async def test_who_finds_the_slots_taken_elsewhere_waits_until_they_are_not() -> None:
    queues = admission(Engine(grpc=A, slots=2))
    _say(queues, a=2)
    waiting = asyncio.create_task(queues.slot(MODEL, POLICY))
    await eventually(lambda: queues.waiting()[MODEL] == 1, "the waiter")
    _say(queues, a=1)
    with await waiting as engine:
        assert engine.grpc == A


async def test_a_new_queue_knows_what_was_heard_before_it() -> None:
    queues = Admission()
    _say(queues, a=2)
    queues.apply(snapshot(engines=(Engine(grpc=A, slots=2),)))
    waiting = asyncio.create_task(queues.slot(MODEL, POLICY))
    await eventually(lambda: queues.waiting()[MODEL] == 1, "the waiter")
    waiting.cancel()


async def test_the_load_of_others_counts_in_the_choice_of_an_engine() -> None:
    queues = admission(Engine(grpc=A, slots=8), Engine(grpc=B, slots=8))
    _say(queues, a=5)
    for _ in range(5):
        with await queues.slot(MODEL, POLICY) as engine:
            assert engine.grpc == B


async def test_a_request_with_many_choices_works_on_as_many_as_are_its_gateways() -> None:
    queues = admission(Engine(grpc=A, slots=4))
    _say(queues, a=0, queued=4)
    with await queues.slot(MODEL, POLICY, Claim(sequences=4)) as engine:
        assert engine.slots == 2
        assert queues.load("me", 1).models[MODEL].taken == {A: 2}
    assert queues.load("me", 1).models[MODEL].taken == {}


async def test_a_slot_that_is_another_gateways_is_left_to_it_and_taken_when_it_does_not_come() -> None:
    queues = admission(Engine(grpc=A, slots=1))
    with await queues.slot(MODEL, POLICY):
        waiting = asyncio.create_task(queues.slot(MODEL, POLICY))
        await eventually(lambda: queues.waiting()[MODEL] == 1, "the waiter")
        _say(queues, a=0, queued=1)
    assert queues.waiting()[MODEL] == 1
    with await waiting as engine:
        assert engine.grpc == A


async def test_while_redis_is_away_a_gateway_has_its_part() -> None:
    queues = admission(Engine(grpc=A, slots=4))
    _say(queues, away=True)
    with await queues.slot(MODEL, POLICY), await queues.slot(MODEL, POLICY):
        waiting = asyncio.create_task(queues.slot(MODEL, POLICY))
        await eventually(lambda: queues.waiting()[MODEL] == 1, "the waiter")
        _say(queues)
        with await waiting:
            pass


async def test_two_models_with_one_address_have_slots_of_their_own() -> None:
    queues = admission(Engine(grpc=A, slots=1))
    other = ModelDemand(in_flight=1, queued=3, taken={A: 1})
    load = GatewayLoad(id="other", sequence=1, models={ModelId("local/another"): other})
    queues.apply_others(OtherLoads((load,)))
    with await queues.slot(MODEL, POLICY):
        pass


async def test_what_there_is_to_do_is_told_and_a_model_that_is_long_idle_is_not() -> None:
    clock = FakeClock()
    queues = Admission(clock)
    queues.apply(replace(snapshot(engines=(Engine(grpc=A, slots=4),)), revision=7))
    assert queues.load("me", 1) == GatewayLoad(id="me", sequence=1, revision=7)
    with await queues.slot(MODEL, POLICY, Claim(sequences=3)):
        waiting = asyncio.create_task(queues.slot(MODEL, POLICY, Claim(sequences=2)))
        await eventually(lambda: queues.waiting()[MODEL] == 1, "the waiter")
        clock.advance(7)
        load = queues.load("me", 2)
        assert load.models[MODEL] == ModelDemand(in_flight=3, queued=2, oldest_wait_s=7.0, taken={A: 3})
    with await waiting:
        pass
    clock.advance(3599)
    assert queues.load("me", 3).models[MODEL] == ModelDemand(idle_s=3599.0)
    clock.advance(1)
    assert queues.load("me", 4).models == {}
