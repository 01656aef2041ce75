"""Many requests that wait for one engine, in one gateway or several: what they take, and how soon they go."""

import asyncio
import json
import resource
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from conch_contracts.names import LOADS_KEY, EngineAddress
from conch_contracts.records import Engine, GatewayLoad
from testkit.gateway.fakes import route
from testkit.gateway.process import Process, gateway_beside, gateway_process
from testkit.patient_redis import patient_redis

STEP = 100
"""So many connect at once."""
BODY = json.dumps({"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}).encode()


@dataclass(frozen=True, slots=True)
class CrowdFigures:
    """What a crowd took."""

    answered: int
    """How many got status 200."""
    grown_bytes: int
    """Memory of all gateways, from before the first request until the last one was held."""
    waits_s: Sequence[float]
    """From the word that the engine is there to the first byte of each, sorted."""


async def hold_crowd(folder: Path, requests: int, gateways: int, slots: int) -> CrowdFigures:
    """Hold so many requests, evenly over so many gateways, and let an engine with so many slots come."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each request is a descriptor, here and in its gateway
    asleep = route(wakes=True, engines_wanted=False, start_s=600.0, hold_max=requests)
    async with AsyncExitStack() as stack:
        folders = [folder / str(number) for number in range(gateways)]
        for each in folders:
            each.mkdir()
        first = await stack.enter_async_context(gateway_process(folders[0], asleep, engines=(), hold_s="600"))
        others = [await stack.enter_async_context(gateway_beside(first, each, hold_s="600")) for each in folders[1:]]
        running = [first, *others]
        before = _memory(running)
        callers = []
        for start in range(0, requests, STEP):
            places = range(start, min(requests, start + STEP))
            callers += await asyncio.gather(*(send(running[place % gateways]) for place in places))
            await until_held(first, len(callers))
        grown = _memory(running) - before
        waits = [asyncio.create_task(first_byte(reader)) for reader, _ in callers]
        engines = (Engine(grpc=EngineAddress("e:1"), slots=slots),)
        began = time.monotonic()
        await first.registry.publish({asleep.model_id: (asleep, engines)})
        answers = await asyncio.gather(*waits)
        for _, writer in callers:
            writer.transport.abort()
        waits_s = sorted(when - began for _, when in answers)
        return CrowdFigures(sum(status == b"200" for status, _ in answers), grown, waits_s)


async def until_held(gateway: Process, count: int) -> None:
    """Wait until all gateways together tell Redis that they hold so many."""
    async with patient_redis(gateway.redis.url) as redis:
        while True:
            loads = [GatewayLoad.model_validate_json(raw) for raw in await redis.execute("HVALS", LOADS_KEY)]
            if sum(demand.held for load in loads for demand in load.models.values()) == count:
                return
            await asyncio.sleep(0.01)


async def send(gateway: Process) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send one request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(BODY)}\r\n\r\n"
    writer.write(head.encode() + BODY)
    return reader, writer


async def first_byte(reader: asyncio.StreamReader) -> tuple[bytes, float]:
    """Return the status of an answer, empty where there is none, and when its first line was there."""
    with suppress(ConnectionError):
        line = await reader.readline()
        return (line.split(b" ")[1] if line else b""), time.monotonic()
    return b"", time.monotonic()


def _memory(gateways: Sequence[Process]) -> int:
    """Return what the gateways take; each is below a process that ends it with the test."""
    found = 0
    for gateway in gateways:
        root = psutil.Process(gateway.process.pid)
        found += sum(each.memory_info().rss for each in (root, *root.children(recursive=True)))
    return found
