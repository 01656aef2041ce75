"""What gateways have to do, heard from a real Redis: at once as it is published, and soon where nobody publishes."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import count

import pytest
from prometheus_client import CollectorRegistry

from conch_contracts.conditions import Condition, ConditionType, Reason
from conch_contracts.names import LOADS_KEY, META_KEY, WAKES_KEY, ModelId
from conch_contracts.records import GatewayLoad, ModelDemand
from conch_contracts.spec.status import ScalingStatus
from conch_kit.redis.client import RedisClient
from conch_kit.registry.liveness import EXPIRY_S
from conch_kit.registry.load_writer import LoadWriter
from conch_operator.metrics import ScalingMetrics
from conch_operator.reconcile.status import ModelStatus
from conch_operator.scaling.autoscaler import Autoscaler
from conch_operator.scaling.decision import LEAST_WINDOW_S, Bounds, EngineScaler, EnginesSeen
from conch_operator.scaling.demand import DemandBook
from conch_operator.scaling.demand_reader import DemandReader
from conch_operator.scaling.starts import StartTimes
from conch_operator.state import Desired, Observed
from testkit.builders.model_deployments import desired_model
from testkit.builders.records import route
from testkit.clock import FakeClock

TINY = ModelId("local/tiny")
IDLE_AFTER_S = 60.0


def record(sequence: int, held: int) -> str:
    return GatewayLoad(id="g", sequence=sequence, models={TINY: ModelDemand(held=held)}).model_dump_json()


class Heard:
    """Wakes whoever waits for something to be known."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def __call__(self, _: Collection[ModelId]) -> None:
        self._event.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():
                await self._event.wait()
                self._event.clear()


async def test_records_are_heard_by_notice_and_by_list_and_wishes_with_them(client: RedisClient) -> None:
    book, heard = DemandBook(time.monotonic), Heard()
    await client.execute("HSET", LOADS_KEY, "g", record(1, 1))
    async with DemandReader(client, book, heard, unix_time=lambda: 1000.0):
        await heard.until(lambda: book.of(TINY, {"g"}).sequences == 1)
        assert book.of(TINY, {"g"}).complete
        await client.execute("HSET", LOADS_KEY, "g", record(2, 2))
        await heard.until(lambda: book.of(TINY, {"g"}).sequences == 2)
        await client.execute("HSET", WAKES_KEY, TINY, "1060", "local/other", "999", "local/bad", "soon")
        await heard.until(lambda: book.awake_until == {TINY: 1060.0})
        await heard.until(lambda: book.of(TINY, {"g"}).sequences == 2)
        published = 2
        while book.of(TINY, {"g"}).sequences != 9:  # a notice is lost while nobody has subscribed yet
            published += 1
            await client.execute("PUBLISH", LOADS_KEY, record(published, 9))
            await asyncio.sleep(0.01)
        assert await client.execute("HKEYS", WAKES_KEY) == [TINY.encode()]


async def test_what_cannot_be_read_is_not_taken_for_all(client: RedisClient) -> None:
    book = DemandBook(time.monotonic)
    await client.execute("HSET", LOADS_KEY, "g", record(1, 1), "broken", "{")
    reader = DemandReader(client, book, lambda _: None)
    await reader.refresh()
    assert book.of(TINY, {"g"}).complete
    await client.execute("DEL", LOADS_KEY)
    await client.execute("SET", LOADS_KEY, "no hash")
    await reader.refresh()
    assert not book.of(TINY, {"g"}).complete
    assert book.of(TINY, {"g"}).sequences == 1


@pytest.mark.parametrize(
    ("engines", "least", "window_s"),
    [(2, 1, LEAST_WINDOW_S), (1, 0, IDLE_AFTER_S)],
    ids=["to fewer", "to rest"],
)
async def test_a_redis_that_was_emptied_takes_no_engine_away_for_a_whole_window(
    client: RedisClient, engines: int, least: int, window_s: float
) -> None:
    clock, sequences = FakeClock(), count(1)
    book = DemandBook(clock)
    reader, scaler = DemandReader(client, book), EngineScaler(engines, clock(), StartTimes([20.0]))
    bounds = Bounds(least=least, most=2, slots=10, target=0.7, idle_after_s=IDLE_AFTER_S)

    async def look() -> int:
        clock.advance(1)
        await reader.refresh()
        seen = EnginesSeen(scaler.desired, drained=scaler.draining)
        return scaler.decide(book.of(TINY, {"g"}), bounds, seen, clock())

    async def lives(seconds: float) -> int:
        for _ in range(int(seconds)):
            await client.execute("HSET", LOADS_KEY, "g", record(next(sequences), 0))
            left = await look()
        return left

    await client.execute("HSET", META_KEY, "epoch", "first")
    assert await lives(window_s - 10) == engines
    await client.execute("FLUSHALL")
    assert await look() == engines
    assert not book.of(TINY, {"g"}).complete
    await client.execute("HSET", META_KEY, "epoch", "second")
    assert await lives(EXPIRY_S + window_s - 2) == engines, "the window begins when all count as said anew"
    assert await lives(5) == engines - 1


@dataclass
class Lost:
    """A reader of a Redis that loses what it holds, and a gateway that says what it has before each look."""

    client: RedisClient
    clock: FakeClock = field(default_factory=FakeClock)
    _sequences: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.book = DemandBook(self.clock)
        self.reader = DemandReader(self.client, self.book)

    async def is_complete(self, epoch: str | None) -> bool:
        """Look once, with a registry of this epoch or without one."""
        if epoch is not None:
            await self.client.execute("HSET", META_KEY, "epoch", epoch)
        await self.client.execute("HSET", LOADS_KEY, "g", record(next(self._sequences), 0))
        await self.reader.refresh()
        return self.book.is_complete({"g"})


async def test_a_redis_that_was_emptied_and_filled_again_between_two_looks_is_noticed(client: RedisClient) -> None:
    lost = Lost(client)
    assert await lost.is_complete("first")
    await client.execute("FLUSHALL")
    assert not await lost.is_complete("second")
    lost.clock.advance(EXPIRY_S - 0.1)
    assert not await lost.is_complete("second"), "another gateway may not have said it anew"
    lost.clock.advance(0.2)
    assert await lost.is_complete("second")


async def test_nobody_has_said_all_until_there_is_a_registry_again(client: RedisClient) -> None:
    lost = Lost(client)
    assert await lost.is_complete("first")
    for _ in range(3):
        await client.execute("FLUSHALL")
        assert not await lost.is_complete(None)
        lost.clock.advance(EXPIRY_S + 1)
    assert not await lost.is_complete("second")
    lost.clock.advance(EXPIRY_S + 0.1)
    assert await lost.is_complete("second")


async def test_a_loss_between_the_looks_at_records_and_registry_is_noticed(client: RedisClient) -> None:
    lost = Lost(client)
    assert await lost.is_complete("first")
    execute = client.execute

    async def emptied_after(command: str, *rest: str) -> object:
        answer = await execute(command, *rest)
        if command == "HVALS":
            await execute("FLUSHALL")
        return answer

    client.execute = emptied_after  # type: ignore[method-assign, assignment]
    assert not await lost.is_complete("first")


async def test_a_gateway_that_has_died_is_heard_of_no_more_when_it_is_forgotten(client: RedisClient) -> None:
    clock = FakeClock()
    book = DemandBook(clock)
    reader = DemandReader(client, book)
    await client.execute("HSET", LOADS_KEY, "g", record(1, 5))
    heard = []
    for _ in range(130):
        await reader.refresh()
        heard.append(book.of(TINY, {"g"}).sequences)
        clock.advance(1)
    assert heard == [5] * 7 + [0] * 123
    assert await client.execute("HLEN", LOADS_KEY) == 0
    assert book.records.silent() == []


async def test_a_wish_leads_to_an_engine_with_the_record_of_its_gateway(client: RedisClient) -> None:
    """The list is read once, before all wishes, so nothing but the record tells of them."""
    book, heard = DemandBook(time.monotonic), Heard()
    autoscaler, took_s = Autoscaler(book, lambda: None, ScalingMetrics.on(CollectorRegistry())), list[float]()

    def hear(models: Collection[ModelId]) -> None:
        autoscaler.heard(models)
        heard(models)

    writer = LoadWriter(client, "g", lambda sequence: GatewayLoad(id="g", sequence=sequence))
    async with DemandReader(client, book, hear, list_s=3600), writer:
        await heard.until(lambda: book.of(TINY, {"g"}).complete)
        for index in range(20):
            decided = asyncio.Event()
            autoscaler = await _at_rest(f"tiny-{index}", book, decided)
            began_s = time.perf_counter()
            await writer.wake(ModelId(f"local/tiny-{index}"), 60)
            await asyncio.wait_for(decided.wait(), 30)
            took_s.append(time.perf_counter() - began_s)
    print(f"from wish to decision: {sorted(round(1000 * each) for each in took_s)} ms")
    assert min(took_s) < 0.2


async def _at_rest(name: str, book: DemandBook, decided: asyncio.Event) -> Autoscaler:
    """Return the autoscaler of a model without an engine; `decided` is set once it is to have one."""
    model = desired_model(name, scaling={"minReplicas": 0, "maxReplicas": 1})
    metrics = ScalingMetrics.on(CollectorRegistry())
    autoscaler = Autoscaler(
        book, lambda: None, metrics, lambda _, scaled, told: decided.set() if scaled.engines else None
    )
    rests = Condition(
        type=ConditionType.ENGINE_READY,
        status="True",
        reason=Reason.SCALED_TO_ZERO,
        message="",
        last_transition_time="2026-01-01T00:00:00Z",
    )
    status = ModelStatus(
        model_id=model.id,
        served_names=(),
        replicas=0,
        ready_replicas=0,
        scaling=ScalingStatus(desired=0, reason="Idle"),
        tokenizer_digest=None,
        conditions=(rests,),
    )
    observed = Observed(routes={model.id: route(name)}, gateways=frozenset({"g"}))
    await autoscaler.apply(Desired((model,)), observed, {model.id: status})
    return autoscaler
