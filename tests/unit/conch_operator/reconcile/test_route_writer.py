import asyncio
from dataclasses import replace

import pytest

from conch_contracts.names import EngineAddress
from conch_kit.redis.errors import RegistryUnavailable
from conch_kit.registry.writer import Fenced
from conch_operator.reconcile.plan import Plan
from conch_operator.reconcile.route_writer import Routes, RouteWriter
from conch_operator.routes.route import make_route
from conch_operator.state import ClusterEngine, EnginePhase, Observed, ObservedEngine, Probe
from testkit.builders.model_deployments import FACTS, READY, desired_model, engine

MODEL = desired_model()
ROUTE = make_route(MODEL, FACTS, MODEL.deployment.served_names)
STEPS = Plan(routes={MODEL.id: (ROUTE, ())})
FIRST, SECOND = (engine(MODEL, index, probe=Probe()).engine for index in range(2))


class World:
    """A registry that keeps each list, and engines that answer when they are said to."""

    def __init__(self) -> None:
        self.lists: list[Routes] = []
        self.answering: set[EngineAddress] = set()
        self.error: Exception | None = None
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.writer = RouteWriter(self._publish, self._verdict, lambda _: FACTS.digest)

    async def _publish(self, routes: Routes) -> int:
        await self.may_write.wait()
        if self.error is not None:
            raise self.error
        self.lists.append(routes)
        return len(self.lists)

    def _verdict(self, one: ClusterEngine) -> Probe:
        return READY if one.grpc in self.answering else Probe()

    def written(self) -> list[list[str]]:
        return [[one.grpc for one in routes[MODEL.id][1]] for routes in self.lists]


def looked(*engines: ClusterEngine, phase: EnginePhase = EnginePhase.RUNNING) -> Observed:
    seen = tuple(ObservedEngine(replace(one, phase=phase)) for one in engines)
    return Observed(engines=seen, specs={MODEL.id: FIRST.spec_hash})


@pytest.fixture
def world() -> World:
    return World()


async def test_an_engine_that_answers_joins_the_last_list_and_the_one_that_a_round_writes(world: World) -> None:
    await world.writer.write(STEPS, looked(FIRST), frozenset())
    await world.writer.write_first_answers()
    assert world.written() == [[]], "nothing is written for nothing"
    world.answering.add(FIRST.grpc)
    await world.writer.write_first_answers()
    made = await world.writer.write(STEPS, looked(FIRST), frozenset())
    assert (made.revision, made.routes) == (3, world.lists[2])
    assert world.written() == [[], [FIRST.grpc], [FIRST.grpc]]


async def test_an_engine_that_started_since_a_round_looked_is_known(world: World) -> None:
    world.answering |= {FIRST.grpc, SECOND.grpc}
    await world.writer.write(STEPS, looked(FIRST, phase=EnginePhase.STARTING), frozenset())
    world.writer.note_start(FIRST)
    world.writer.note_start(SECOND)
    assert world.writer.started_besides([FIRST]) == [SECOND]
    await world.writer.write_first_answers()
    assert world.written() == [[], [FIRST.grpc, SECOND.grpc]]


async def test_what_a_round_knows_of_an_engine_stands(world: World) -> None:
    world.answering.add(FIRST.grpc)
    world.writer.note_start(FIRST)
    await world.writer.write(STEPS, looked(FIRST, phase=EnginePhase.LEAVING), frozenset())
    assert world.written() == [[]]


async def test_an_engine_is_forgotten_when_a_round_has_looked_after_its_start(world: World) -> None:
    world.answering.add(FIRST.grpc)
    world.writer.note_start(FIRST)
    looked_after = world.writer.started()
    await world.writer.write(STEPS, looked(), looked_after)
    assert (world.written(), world.writer.started()) == ([[]], frozenset())


async def test_a_list_of_a_round_is_not_replaced_by_an_earlier_one(world: World) -> None:
    world.answering.add(FIRST.grpc)
    gone = Plan()
    await world.writer.write(STEPS, looked(), frozenset())
    world.may_write.clear()
    rounds = asyncio.create_task(world.writer.write(gone, looked(FIRST), frozenset()))
    await asyncio.sleep(0)
    between = asyncio.create_task(world.writer.write_first_answers())
    await asyncio.sleep(0)
    world.may_write.set()
    await asyncio.gather(rounds, between)
    assert [len(routes) for routes in world.lists] == [1, 0]


async def test_nothing_is_written_between_rounds_while_the_registry_takes_nothing(world: World) -> None:
    await world.writer.write(STEPS, looked(FIRST), frozenset())
    world.answering.add(FIRST.grpc)
    world.error = RegistryUnavailable("refused")
    await world.writer.write_first_answers()
    with pytest.raises(RegistryUnavailable):
        await world.writer.write(STEPS, looked(FIRST), frozenset())
    world.error = None
    await world.writer.write_first_answers()
    await world.writer.write(STEPS, looked(FIRST), frozenset())
    await world.writer.stop()
    await world.writer.write_first_answers()
    assert world.written() == [[], [FIRST.grpc]]


async def test_an_operator_that_another_has_replaced_hears_of_it_between_rounds_too(world: World) -> None:
    await world.writer.write(STEPS, looked(FIRST), frozenset())
    world.answering.add(FIRST.grpc)
    world.error = Fenced("FENCED by 2")
    with pytest.raises(Fenced):
        await world.writer.write_first_answers()
