import asyncio
from dataclasses import replace

import pytest

from conch_contracts.names import Digest, EngineAddress
from conch_kit.redis.errors import RegistryUnavailable
from conch_kit.registry.writer import Fenced
from conch_operator.reconcile.moment import LOOK_S, MOMENT_S
from conch_operator.reconcile.plan import Plan, UnknownRoutes
from conch_operator.reconcile.route_writer import Routes, RouteWriter
from conch_operator.routes.route import make_route
from conch_operator.state import ClusterEngine, EngineName, EnginePhase, Observed, ObservedEngine, Probe
from testkit.builders.model_deployments import FACTS, READY, desired_model, engine

MODEL = desired_model()
ROUTE = make_route(MODEL, FACTS, MODEL.deployment.served_names)
STEPS = Plan(routes={MODEL.id: (ROUTE, ())})
FIRST, SECOND = (engine(MODEL, index, probe=Probe()).engine for index in range(2))


class World:
    """A registry that keeps each list, and engines that answer when they are said to."""

    def __init__(self) -> None:
        self.lists: list[Routes] = []
        self.unknown: list[UnknownRoutes] = []
        self.answering: set[EngineAddress] = set()
        self.error: Exception | None = None
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.tokenizers: dict[EngineName, Digest] = {FIRST.name: FACTS.digest, SECOND.name: FACTS.digest}
        self.writer = RouteWriter(self._publish, self._verdict, self.tokenizers.get)

    async def _publish(self, routes: Routes, unknown: UnknownRoutes) -> int:
        await self.may_write.wait()
        if self.error is not None:
            raise self.error
        self.lists.append(routes)
        self.unknown.append(unknown)
        return len(self.lists)

    def _verdict(self, one: ClusterEngine) -> Probe:
        return READY if one.grpc in self.answering else Probe()

    async def look(self) -> None:
        self.writer.note_answer()
        await self.writer.write_first_answers()

    def written(self) -> list[list[str]]:
        return [[one.grpc for one in routes[MODEL.id][1]] for routes in self.lists]


def looked(*engines: ClusterEngine, phase: EnginePhase = EnginePhase.RUNNING) -> Observed:
    seen = tuple(ObservedEngine(replace(one, phase=phase)) for one in engines)
    return Observed(engines=seen, specs={MODEL.id: FIRST.spec_hash})


@pytest.fixture
def world() -> World:
    return World()


async def test_an_engine_that_answers_joins_the_last_list_and_the_one_that_a_round_writes(world: World) -> None:
    await world.writer.write(STEPS, looked(FIRST))
    await world.look()
    assert world.written() == [[]], "nothing is written for nothing"
    world.answering.add(FIRST.grpc)
    await world.look()
    await world.look()
    assert world.written() == [[], [FIRST.grpc]], "nor twice"
    made = await world.writer.write(STEPS, looked(FIRST))
    assert (made.revision, made.routes) == (3, world.lists[2])
    await world.look()
    assert world.written() == [[], [FIRST.grpc], [FIRST.grpc]], "a round has written it too"


async def test_an_engine_that_answers_no_more_is_left_to_the_next_round(world: World) -> None:
    await world.writer.write(STEPS, looked(FIRST))
    world.answering.add(FIRST.grpc)
    await world.look()
    world.answering.clear()
    await world.look()
    assert world.written() == [[], [FIRST.grpc]]
    await world.writer.write(STEPS, looked(FIRST))
    assert world.written() == [[], [FIRST.grpc], []]


async def test_an_engine_whose_list_was_not_taken_is_written_at_the_next_look(world: World) -> None:
    await world.writer.write(STEPS, looked(FIRST))
    world.answering.add(FIRST.grpc)
    world.error = RegistryUnavailable("refused")
    await world.look()
    world.error = None
    await world.look()
    assert world.written() == [[], [FIRST.grpc]]


async def test_an_engine_that_started_since_a_round_looked_is_known(world: World) -> None:
    world.answering |= {FIRST.grpc, SECOND.grpc}
    await world.writer.write(STEPS, looked(FIRST, phase=EnginePhase.STARTING))
    world.writer.note_start(FIRST)
    world.writer.note_start(SECOND)
    waiting = replace(FIRST, phase=EnginePhase.STARTING)
    assert world.writer.with_started([waiting]) == [FIRST, SECOND]
    await world.look()
    assert world.written() == [[], [FIRST.grpc, SECOND.grpc]]


async def test_an_answer_is_awaited_from_the_start_of_an_engine_until_its_route_is_written(world: World) -> None:
    await world.writer.write(STEPS, looked())
    assert not world.writer.awaits_answer
    world.writer.note_start(FIRST)
    assert world.writer.awaits_answer
    world.answering.add(FIRST.grpc)
    assert not world.writer.awaits_answer
    world.may_write.clear()
    writing = asyncio.create_task(world.look())
    await asyncio.sleep(0)
    assert world.writer.awaits_answer
    world.may_write.set()
    await writing
    assert not world.writer.awaits_answer


async def test_an_answer_is_awaited_until_the_tokenizer_of_its_engine_is_known(world: World) -> None:
    await world.writer.write(STEPS, looked())
    world.tokenizers.clear()
    world.writer.note_start(FIRST)
    world.answering.add(FIRST.grpc)
    assert world.writer.awaits_answer
    world.tokenizers[FIRST.name] = FACTS.digest
    assert not world.writer.awaits_answer


async def test_a_round_lets_an_answer_go_first(world: World) -> None:
    await world.writer.write(STEPS, looked(FIRST))
    world.writer.begin_round()
    world.writer.note_start(FIRST)
    going_on = asyncio.create_task(world.writer.let_answers_go_first())
    await asyncio.sleep(LOOK_S * 3)
    assert not going_on.done()
    world.answering.add(FIRST.grpc)
    await world.look()
    await asyncio.wait_for(going_on, 30)
    assert world.written() == [[], [FIRST.grpc]]


async def test_a_round_waits_for_answers_for_a_moment_in_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, sleep = 0, asyncio.sleep

    async def looking(seconds: float) -> None:
        nonlocal looks
        looks += 1
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", looking)
    world.writer.note_start(FIRST)
    for _ in range(2):
        world.writer.begin_round()
        world.writer.note_start(FIRST)
        for _ in range(3):
            await world.writer.let_answers_go_first()
    assert looks == 2 * round(MOMENT_S / LOOK_S)


async def test_each_list_names_the_models_of_which_no_route_is_known(world: World) -> None:
    unknown: UnknownRoutes = {desired_model("unread").id: ()}
    await world.writer.write(replace(STEPS, unknown=unknown), looked(FIRST))
    world.answering.add(FIRST.grpc)
    await world.look()
    assert world.unknown == [unknown, unknown]


async def test_what_a_round_knows_of_an_engine_stands(world: World) -> None:
    world.answering.add(FIRST.grpc)
    world.writer.note_start(FIRST)
    await world.writer.write(STEPS, looked(FIRST, phase=EnginePhase.LEAVING))
    assert world.written() == [[]]


async def test_an_engine_that_is_gone_is_forgotten_by_the_round_after_the_next(world: World) -> None:
    world.writer.note_start(FIRST)
    world.writer.begin_round()
    world.writer.note_start(SECOND)
    assert world.writer.with_started([]) == [FIRST, SECOND]
    world.writer.begin_round()
    assert world.writer.with_started([]) == [SECOND]
    world.writer.begin_round()
    assert world.writer.with_started([]) == []


async def test_an_engine_that_answers_while_others_are_written_is_written_behind_them(world: World) -> None:
    other = desired_model("other")
    second = replace(SECOND, model=other.id)
    observed = replace(looked(FIRST, second), specs=dict.fromkeys((MODEL.id, other.id), FIRST.spec_hash))
    steps = Plan(routes={MODEL.id: (ROUTE, ()), other.id: (ROUTE, ())})
    await world.writer.write(steps, observed)
    world.answering.add(FIRST.grpc)
    world.may_write.clear()
    writing = asyncio.create_task(world.look())
    await asyncio.sleep(0)
    world.answering.add(second.grpc)
    world.writer.note_answer()
    world.may_write.set()
    await writing
    assert [len(routes[other.id][1]) for routes in world.lists] == [0, 0, 1]


async def test_a_list_of_a_round_is_not_replaced_by_an_earlier_one(world: World) -> None:
    world.answering.add(FIRST.grpc)
    gone = Plan()
    await world.writer.write(STEPS, looked())
    world.may_write.clear()
    rounds = asyncio.create_task(world.writer.write(gone, looked(FIRST)))
    await asyncio.sleep(0)
    between = asyncio.create_task(world.look())
    await asyncio.sleep(0)
    world.may_write.set()
    await asyncio.gather(rounds, between)
    assert [len(routes) for routes in world.lists] == [1, 0]


async def test_nothing_is_written_between_rounds_while_the_registry_takes_nothing(world: World) -> None:
    await world.writer.write(STEPS, looked(FIRST))
    world.answering.add(FIRST.grpc)
    world.error = RegistryUnavailable("refused")
    await world.look()
    with pytest.raises(RegistryUnavailable):
        await world.writer.write(STEPS, looked(FIRST))
    world.error = None
    await world.look()
    await world.writer.write(STEPS, looked(FIRST))
    await world.writer.stop()
    await world.look()
    assert world.written() == [[], [FIRST.grpc]]


async def test_an_operator_that_another_has_replaced_hears_of_it_between_rounds_too(world: World) -> None:
    await world.writer.write(STEPS, looked(FIRST))
    world.answering.add(FIRST.grpc)
    world.error = Fenced("FENCED by 2")
    with pytest.raises(Fenced):
        await world.look()
