"""A second gateway that knows a few of the models of the first, so that both are measured in one run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bench.clients.messages import Load
from bench.clients.remote import RemoteClient, load_client
from bench.cpu_time import process_seconds

from conch_contracts.names import WorkerUrl
from conch_contracts.records import Pool
from conch_kit.registry.heartbeat import HeartbeatWriter
from conch_kit.registry.snapshot_refresh import RegistryReader
from conch_kit.registry.writer import RegistryWriter
from testkit.fleet.world import Fleet, gateway_of
from testkit.kubernetes.operator_process import Process
from testkit.patient_redis import patient_redis
from testkit.servers.redis import RedisServer

CONNECTIONS = 16
_POOLS = {Pool.TOKENIZER: "tokenizer", Pool.LLM: "llm-worker"}


@asynccontextmanager
async def gateway_with_few(fleet: Fleet, count: int, folder: Path) -> AsyncIterator[Process]:
    """Run a gateway on a Redis of its own, with so many of the models that have engines, beside the same workers."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        redis = await enter(RedisServer())
        client = await enter(patient_redis(redis.url))
        reader = await enter(RegistryReader(await enter(patient_redis(fleet.redis.url))))
        await reader.wait_loaded(30)
        all_models = reader.snapshot
        chosen = sorted(model for model, engines in all_models.engines.items() if engines)[:count]
        await RegistryWriter(client).publish(
            {model: (all_models.routes[model], all_models.engines[model]) for model in chosen}
        )
        for pool, service in _POOLS.items():
            url = WorkerUrl(fleet.services[service].url())
            await enter(HeartbeatWriter(client, pool, url, in_flight=lambda: 0, draining=lambda: False))
        gateway = gateway_of(redis, folder)
        await asyncio.to_thread(gateway.start)
        with gateway.ending():
            yield gateway


async def cpu_us(
    fleet: Fleet, few: Process, folder: Path, pairs: int, seconds: float
) -> tuple[list[float], list[float]]:
    """Return what CPU time a request took the gateway with few models, and the one with all, in turns, in µs."""
    many = fleet.services["gateway"]
    async with (
        load_client("bench.clients.http_load", (few.url(),), "few", folder) as of_few,
        load_client("bench.clients.http_load", (many.url(),), "many", folder) as of_many,
    ):
        sides = ((few, of_few), (many, of_many))
        for _, client in sides:
            await client.load(Load(CONNECTIONS, 1, requests=20 * CONNECTIONS, stream=False))
        figures: tuple[list[float], list[float]] = ([], [])
        for _ in range(pairs):
            for (gateway, client), found in zip(sides, figures, strict=True):
                found.append(await _window(gateway, client, seconds))
        return figures


async def _window(gateway: Process, client: RemoteClient, seconds: float) -> float:
    before = process_seconds(gateway.pid)
    result = await client.load(Load(CONNECTIONS, 1, seconds=seconds, requests=CONNECTIONS, stream=False))
    return (process_seconds(gateway.pid) - before) / result.requests * 1e6
