"""Who waits for a service whose processes are away, for how long, and in which order they ask again."""

import asyncio

import pytest

from conch_contracts.names import ModelId
from conch_contracts.records import RoutingPolicy
from conch_gateway.placement.pool_return import PoolReturn
from testkit.gateway.fakes import route

LONG_S = 60.0


def limited(most: int, model: str = "a"):
    """Return the route of a model whose queue holds so many requests."""
    return route(model_id=ModelId(model), routing=RoutingPolicy(queue_max=most))


class Service:
    """A service that was once known; `running` says whether a process of it is announced."""

    def __init__(self) -> None:
        self.running = False
        self.line = PoolReturn(lambda: True, lambda: self.running)
        self.order: list[int] = []

    async def request(self, number: int, most: int = 10) -> bool:
        """Wait for a turn."""
        granted = await self.line.turn(limited(most), LONG_S)
        if granted:
            self.order.append(number)
        return granted


@pytest.mark.parametrize(("known", "wait_s", "most"), [(False, LONG_S, 10), (True, 0.0, 10), (True, LONG_S, 0)])
async def test_nobody_waits_for_what_was_never_there_or_without_time_or_room(known, wait_s, most):
    line = PoolReturn(lambda: known, lambda: True)
    assert not await asyncio.wait_for(line.turn(limited(most), wait_s), 10)


async def test_who_waits_for_too_long_is_told():
    line = PoolReturn(lambda: True, lambda: False)
    assert not await asyncio.wait_for(line.turn(limited(1), 0.01), 10)


async def test_each_model_has_room_for_as_many_as_its_queue_holds():
    service = Service()
    async with asyncio.timeout(LONG_S):
        waiting = [asyncio.create_task(service.request(number, most=2)) for number in range(2)]
        await asyncio.sleep(0)
        assert not await service.request(2, most=2)
        other = asyncio.create_task(service.line.turn(limited(2, "b"), LONG_S))
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        third = asyncio.create_task(service.request(3, most=2))  # there is room again
        service.running = True
        assert await asyncio.gather(waiting[1], other, third) == [True] * 3


async def test_they_ask_one_after_the_other_as_they_came():
    service = Service()
    async with asyncio.timeout(LONG_S):
        waiting = [asyncio.create_task(service.request(number)) for number in range(3)]
        service.running = True
        await waiting[0]
        assert service.order == [0]
        await asyncio.gather(*waiting)
    assert service.order == [0, 1, 2]


async def test_an_answer_to_one_gives_all_their_turn():
    service = Service()
    async with asyncio.timeout(LONG_S):
        waiting = [asyncio.create_task(service.request(number)) for number in range(3)]
        await asyncio.sleep(0)
        service.line.answered()
        assert await asyncio.gather(*waiting) == [True] * 3
