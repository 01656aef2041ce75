"""Who waits for a service whose processes are away, for how long, and in which order they ask again."""

import asyncio

import pytest

from conch_contracts.names import ModelId, WorkerUrl
from conch_contracts.records import Heartbeat, RoutingPolicy
from conch_gateway.placement import pool_return
from conch_gateway.placement.pool_return import NO_PROCESS_RETRY_S, PoolReturn
from conch_gateway.placement.waiting_room import WaitingRoom
from conch_kit.errors import RateLimited
from testkit.gateway.fakes import route

LONG_S = 60.0
RUNNING = Heartbeat(url=WorkerUrl("http://w1:1"), sequence=1)
DRAINING = Heartbeat(url=WorkerUrl("http://w2:1"), sequence=1, draining=True)
GONE = WorkerUrl("http://w3:1")


def limited(most: int, model: str = "a"):
    """Return the route of a model whose queue holds so many requests."""
    return route(model_id=ModelId(model), routing=RoutingPolicy(queue_max=most))


def line(alive, *, known=True, limit=1000):
    """Return the line of those that wait for a worker, with room for so many bytes."""
    return PoolReturn("worker", lambda: known, alive, WaitingRoom(limit))


class Service:
    """A service that was once known, and who of it is announced."""

    def __init__(self, *alive: Heartbeat) -> None:
        self.alive = alive
        self.line = line(lambda: self.alive)
        self.order: list[int] = []

    async def request(self, number: int, most: int = 10) -> bool:
        """Wait for a turn."""
        granted = await self.line.turn(limited(most), LONG_S, 1)
        if granted:
            self.order.append(number)
        return granted


@pytest.mark.parametrize(("known", "wait_s", "most"), [(False, LONG_S, 10), (True, 0.0, 10), (True, LONG_S, 0)])
async def test_nobody_waits_for_what_was_never_there_or_without_time_or_room(known, wait_s, most):
    away = line(lambda: (RUNNING,), known=known, limit=0)
    assert not await asyncio.wait_for(away.turn(limited(most), wait_s, 1), 10)


async def test_who_waits_for_too_long_is_told():
    assert not await asyncio.wait_for(line(tuple).turn(limited(1), 0.01, 1), 10)


async def test_who_has_given_up_takes_no_turn_from_the_others(monkeypatch):
    monkeypatch.setattr(pool_return, "TURN_S", 0.01)
    looks = []

    def alive():
        looks.append(RUNNING)
        return (RUNNING,)

    away = line(lambda: alive() if gave_up else ())
    gave_up = False
    waiting = [asyncio.create_task(away.turn(limited(9), wait_s, 1)) for wait_s in (0.001, LONG_S)]
    gave_up = not await waiting[0]
    assert await asyncio.wait_for(waiting[1], LONG_S)
    assert len(looks) == 1


async def test_each_model_has_room_for_as_many_as_its_queue_holds():
    service = Service()
    async with asyncio.timeout(LONG_S):
        waiting = [asyncio.create_task(service.request(number, most=2)) for number in range(2)]
        await asyncio.sleep(0)
        assert not await service.request(2, most=2)
        other = asyncio.create_task(service.line.turn(limited(2, "b"), LONG_S, 1))
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        third = asyncio.create_task(service.request(3, most=2))  # there is room again
        service.alive = (RUNNING,)
        assert await asyncio.gather(waiting[1], other, third) == [True] * 3


async def test_what_waits_has_a_bound_in_bytes_and_leaves_its_room():
    away = line(tuple, limit=10)
    async with asyncio.timeout(LONG_S):
        waiting = asyncio.create_task(away.turn(limited(9), LONG_S, 6))
        await asyncio.sleep(0)
        with pytest.raises(RateLimited, match=r"Too much waits here for a worker\.") as refused:
            await away.turn(limited(9, "b"), LONG_S, 5)
        assert refused.value.retry_after_s >= NO_PROCESS_RETRY_S
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not await away.turn(limited(9), 0.001, 10)


async def test_they_ask_one_after_the_other_as_they_came():
    service = Service()
    async with asyncio.timeout(LONG_S):
        waiting = [asyncio.create_task(service.request(number)) for number in range(3)]
        service.alive = (RUNNING,)
        await waiting[0]
        assert service.order == [0]
        await asyncio.gather(*waiting)
    assert service.order == [0, 1, 2]


async def test_an_answer_to_one_gives_all_their_turn():
    service = Service(RUNNING)
    async with asyncio.timeout(LONG_S):
        waiting = [asyncio.create_task(service.request(number)) for number in range(3)]
        await asyncio.sleep(0)
        service.line.answered(RUNNING.url)
        await asyncio.sleep(0)
        assert service.order == [0, 1, 2]
        assert await asyncio.gather(*waiting) == [True] * 3


@pytest.mark.parametrize("alive", [(), (DRAINING,), (DRAINING, RUNNING)])
@pytest.mark.parametrize("process", [DRAINING.url, GONE])
async def test_an_answer_of_one_that_takes_nothing_new_gives_nobody_a_turn(alive, process):
    """It says nothing of another one, which may be dead though it is announced."""
    service = Service(*alive)
    async with asyncio.timeout(LONG_S):
        waiting = asyncio.create_task(service.request(0))
        await asyncio.sleep(0)
        service.line.answered(process)
        await asyncio.sleep(0)
        assert service.order == []
        service.alive = (RUNNING,)
        service.line.answered(RUNNING.url)
        assert await waiting
