"""What operators tell KEDA of what gateways write to a real Redis: each of them, and nothing false while it is away."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from conch_contracts.names import META_KEY, ModelId
from conch_contracts.records import GatewayLoad, ModelDemand
from conch_kit.redis.client import RedisClient
from conch_kit.registry.heartbeat import GatewayBeatWriter
from conch_kit.registry.liveness import EXPIRY_S
from conch_kit.registry.load_writer import LoadWriter
from conch_operator.external_scaler.process import listening, serving
from testkit.kubernetes.keda import Keda, ListedModels
from testkit.patient_redis import patient_redis
from testkit.servers.redis import RedisServer

TINY = ModelId("ns/tiny")


@dataclass
class Gateway:
    """Has as many requests for the model as a test says."""

    held: int = 0
    loads: LoadWriter | None = field(default=None, init=False)

    def record(self, sequence: int) -> GatewayLoad:
        return GatewayLoad(id="g", sequence=sequence, models={TINY: ModelDemand(held=self.held)})

    def has(self, held: int) -> None:
        assert self.loads is not None
        self.held = held
        self.loads.changed(urgent=True)


@dataclass
class World:
    gateway: Gateway
    kedas: tuple[Keda, Keda]
    """One for each operator."""

    async def until_said(self, value: int) -> None:
        """Wait until both operators say that there is so much to do."""
        async with asyncio.timeout(30):
            for keda in self.kedas:
                while await self.said(keda) != value:  # noqa: ASYNC110 - it is asked, as KEDA does
                    await asyncio.sleep(0.01)

    async def said(self, keda: Keda) -> Any:
        """Return the metric; the status where there is none."""
        try:
            return (await keda.metric())[1]
        except grpc.aio.AioRpcError as error:
            return error.code()


@pytest.fixture
async def world(server: RedisServer) -> AsyncIterator[World]:
    """Yield a gateway, and two operators of which neither has the Lease."""
    async with AsyncExitStack() as stack:
        enter, gateway, models, kedas = stack.enter_async_context, Gateway(), ListedModels(), list[Keda]()
        models.put(replicas=1)
        redis = await enter(patient_redis(server.url))
        await redis.execute("HSET", META_KEY, "epoch", "first")
        await enter(GatewayBeatWriter(redis, "g", revision=lambda: 1))
        gateway.loads = await enter(LoadWriter(redis, "g", gateway.record))
        for _ in range(2):
            own = await enter(RedisClient(server.url))
            port = await enter(serving(await enter(listening(models, own, [None])), "127.0.0.1", 0))
            kedas.append(await enter(Keda(port)))
        yield World(gateway, (kedas[0], kedas[1]))


async def test_every_operator_tells_at_once_that_demand_begins_and_later_that_it_has_ended(world: World) -> None:
    await world.until_said(0)
    one, other = world.kedas
    async with one.activity() as first, other.activity() as second:
        assert (await first(), await second()) == (False, False)
        took_s = []
        for _ in range(3):
            began_s = time.perf_counter()
            world.gateway.has(1)
            assert (await first(), await second()) == (True, True)
            took_s.append(time.perf_counter() - began_s)
            world.gateway.has(0)
            assert (await first(), await second()) == (False, False)
    print(f"from the first request to KEDA: {sorted(round(1000 * each) for each in took_s)} ms")
    assert min(took_s) < 0.2


async def test_while_redis_is_away_nothing_is_said_that_would_take_an_engine_away(
    world: World, server: RedisServer
) -> None:
    await world.until_said(0)
    async with world.kedas[0].activity() as following:
        assert await following() is False
        server.freeze()
        await world.until_said(grpc.StatusCode.UNAVAILABLE)  # type: ignore[arg-type]
        with pytest.raises(grpc.aio.AioRpcError, match="Redis is away"):
            await world.kedas[1].is_active()
        server.thaw()
        await world.until_said(0)
        world.gateway.has(1)
        assert await following() is True


async def test_an_emptied_redis_is_not_taken_for_one_without_demand(world: World, client: RedisClient) -> None:
    world.gateway.has(100)
    await world.until_said(100)
    async with world.kedas[0].activity() as following:
        assert await following() is True
        await client.execute("FLUSHALL")
        written_at_s = time.monotonic()
        await client.execute("HSET", META_KEY, "epoch", "second")
        for _ in range(30):
            assert await world.said(world.kedas[0]) == 100
            await asyncio.sleep(0.05)
        world.gateway.has(0)
        assert await following() is False
        assert time.monotonic() - written_at_s >= EXPIRY_S, "until then another gateway may not have said it anew"
