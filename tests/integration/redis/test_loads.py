"""Gateways tell each other what they have to do, on a real server."""

import asyncio
from contextlib import AsyncExitStack

from redis import Redis

from conch_contracts.names import LOADS_KEY, WAKES_KEY, ModelId
from conch_contracts.records import GatewayLoad, ModelDemand
from conch_kit.redis.client import RedisClient
from conch_kit.registry.load_reader import LoadReader, OtherLoads
from conch_kit.registry.load_writer import LoadWriter
from conch_kit.registry.woken_models import WokenModels
from testkit.clock import FakeClock
from testkit.patient_redis import patient_redis
from testkit.servers.redis import RedisServer
from testkit.waiting import eventually

MODEL = ModelId("local/chat")


class _Gateway:
    """One side of the exchange."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.held = 0
        self.said = OtherLoads()

    def record(self, sequence: int) -> GatewayLoad:
        return GatewayLoad(id=self.name, sequence=sequence, models={MODEL: ModelDemand(held=self.held)})

    def apply(self, said: OtherLoads) -> None:
        self.said = said

    def heard(self) -> dict[str, int]:
        """Return how much is held at each of the others."""
        return {load.id: load.models[MODEL].held for load in self.said.loads if load.models}


async def _begin(stack: AsyncExitStack, gateway: _Gateway, redis: RedisClient) -> LoadWriter:
    await stack.enter_async_context(LoadReader(redis, gateway.name, gateway.apply))
    return await stack.enter_async_context(LoadWriter(redis, gateway.name, gateway.record, beat_s=0.2))


async def test_each_hears_what_the_others_say_and_that_one_has_ended(client: RedisClient) -> None:
    a, b = _Gateway("a"), _Gateway("b")
    async with AsyncExitStack() as stack:
        writer = await _begin(stack, a, client)
        async with AsyncExitStack() as other:
            await _begin(other, b, client)
            a.held = 3
            writer.changed(urgent=True)
            await eventually(lambda: b.heard() == {"a": 3} and a.heard() == {"b": 0}, "each other")
        await eventually(lambda: a.heard() == {}, "that the other has nothing to do")
        assert await client.execute("HKEYS", LOADS_KEY) == [b"a"]


async def test_while_redis_is_away_those_stay_who_were_there_and_it_is_known(server: RedisServer) -> None:
    a, b = _Gateway("a"), _Gateway("b")
    async with patient_redis(server.url) as redis, AsyncExitStack() as stack:
        await _begin(stack, a, redis)
        writer = await _begin(stack, b, redis)
        await eventually(lambda: a.heard() == {"b": 0}, "the other")
        server.kill()
        await eventually(lambda: a.said.away, "that Redis is away")
        assert a.heard() == {"b": 0}
        b.held = 2
        writer.changed(urgent=True)
        server.start()
        await eventually(lambda: not a.said.away and a.heard() == {"b": 2}, "what was said meanwhile")


async def test_a_record_that_nobody_renews_is_taken_out(client: RedisClient) -> None:
    clock, a = FakeClock(), _Gateway("a")
    await client.execute("HSET", LOADS_KEY, "dead", GatewayLoad(id="dead", sequence=1).model_dump_json())
    await client.execute("HSET", LOADS_KEY, "odd", "{")
    async with LoadReader(client, "a", a.apply, clock=clock):
        await eventually(lambda: len(a.said.loads) == 1, "the record")
        clock.advance(7)
        await eventually(lambda: a.said.loads == (), "that it is too old")
        clock.advance(60)
        async with asyncio.timeout(30):
            while await client.execute("HEXISTS", LOADS_KEY, "dead"):
                pass


async def test_of_two_wishes_the_longer_one_stays(client: RedisClient) -> None:
    writer = LoadWriter(client, "a", _Gateway("a").record)
    assert await writer.wake(MODEL, 100, clock=lambda: 1000.0) == 1100
    assert await writer.wake(MODEL, 50, clock=lambda: 1000.0) == 1100.001, "so somebody has asked again"
    assert await writer.wake(MODEL, 300, clock=lambda: 1000.0) == 1300
    assert await client.execute("HGET", WAKES_KEY, MODEL) == b"1300"
    await client.execute("HSET", WAKES_KEY, MODEL, "nonsense")
    assert await writer.wake(MODEL, 1, clock=lambda: 1000.0) == 1001


async def test_a_wish_that_comes_while_an_old_one_is_taken_out_stays(server: RedisServer, client: RedisClient) -> None:
    await client.execute("HSET", WAKES_KEY, MODEL, "999", "local/other", "998")

    def wished_anew() -> float:
        with Redis.from_url(server.url) as gateway:
            gateway.hset(WAKES_KEY, MODEL, "2000")
        return 1000.0

    assert await WokenModels(client, wished_anew).read() == {}
    assert await client.execute("HGETALL", WAKES_KEY) == [MODEL.encode(), b"2000"]
    assert await WokenModels(client, lambda: 1000.0).read() == {MODEL: 2000.0}


async def test_wishes_that_redis_has_lost_are_written_again_by_whoever_has_read_them(client: RedisClient) -> None:
    other, now = ModelId("local/other"), 1000.0
    writer, readers = (
        LoadWriter(client, "g", _Gateway("g").record),
        [WokenModels(client, lambda: now) for _ in range(2)],
    )
    await writer.wake(MODEL, 600, clock=lambda: now)
    await writer.wake(other, 60, clock=lambda: now)
    for reader in readers:
        await reader.read()
    await client.execute("FLUSHALL")
    await asyncio.gather(*(reader.read() for reader in readers))
    assert await client.execute("HGET", WAKES_KEY, MODEL) == b"1600", "so that it does not look like another call"
    await client.execute("FLUSHALL")
    await writer.wake(MODEL, 10, clock=lambda: now)  # of two wishes the longer one counts
    await writer.wake(other, 70, clock=lambda: now)
    await writer.wake(other, 70, clock=lambda: now)
    for reader in (*readers, WokenModels(client, lambda: now)):
        assert await reader.read() == {MODEL: 1600.0, other: 1070.001}
    now = 1071.0
    for reader in (*readers, WokenModels(client, lambda: now)):
        assert await reader.read() == {MODEL: 1600.0}
    assert await client.execute("HGETALL", WAKES_KEY) == [MODEL.encode(), b"1600"]
