"""A model that has no engine and starts one for a request: the real gateway, a real Redis, a worker that plays."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from conch_contracts.names import LOADS_KEY, WAKES_KEY
from conch_contracts.records import GatewayLoad, RoutingPolicy
from conch_kit.redis.client import RedisClient
from conch_kit.registry.liveness import EXPIRY_S
from testkit.gateway.fakes import route
from testkit.gateway.held_crowd import BODY, first_byte, hold_crowd, send, until_held
from testkit.gateway.process import ENGINES, FRAMES, Process, gateway_process
from testkit.patient_redis import patient_redis

PATH = "/v1/chat/completions"
STREAM = json.dumps({**json.loads(BODY), "stream": True}).encode()
ASLEEP = route(wakes=True, engines_wanted=False, start_s=40.0, routing=RoutingPolicy(queue_wait_s=5.0))
LIMIT_S = 240.0
HOLD_MAX = 200
"""As a model holds where its spec does not say how many."""
MIB = 2**20


@asynccontextmanager
async def _asleep(folder: Path, **settings: str) -> AsyncIterator[tuple[Process, RedisClient]]:
    """Run a gateway whose model has no engine, and give a client of its Redis."""
    async with (
        asyncio.timeout(LIMIT_S),
        gateway_process(folder, ASLEEP, engines=(), **settings) as gateway,
        patient_redis(gateway.redis.url) as redis,
    ):
        yield gateway, redis


async def _wake(gateway: Process) -> None:
    await gateway.registry.publish({ASLEEP.model_id: (ASLEEP, ENGINES)})


async def _wakes(gateway: Process) -> list[tuple[bytes, bytes]]:
    """Return the causes of wakes that the gateway has counted, with how often."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.admin_port)
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    metrics = await reader.read()
    writer.close()
    return sorted(
        re.findall(rb"^conch_gateway_wakes_total\{cause=\"(\w+)\",[^}]*\} ([1-9]\S*)$", metrics, re.MULTILINE)
    )


async def test_what_is_held_outlives_redis_and_the_wish_is_said_again(tmp_path: Path) -> None:
    async with _asleep(tmp_path, hold_status_s="0.05", hold_comment_s="0.05") as (gateway, _):
        asked = [asyncio.create_task(gateway.post(PATH, body)) for body in (BODY, STREAM)]
        await until_held(gateway, 2)
        gateway.redis.kill()
        await asyncio.sleep(EXPIRY_S + 1)  # nothing tells that something would have expired: so long it must be
        gateway.redis.start()
        await until_held(gateway, 2)
        assert not any(task.done() for task in asked)
        await _wake(gateway)
        (plain, _, _), (stream, headers, body) = [await task for task in asked]
        assert (plain, stream, headers["x-conch-cold-start"]) == (200, 200, "40")
        assert headers["x-accel-buffering"] == "no"
        assert b": an engine starts, ready in about " in body
        assert b"".join(FRAMES) in b"".join(body.split(b"\r\n")[1::2])
        await until_held(gateway, 0)
    line = next(line for line in (tmp_path / "log").read_text().splitlines() if '"held_ms"' in line)
    assert json.loads(line)["held_ms"] > 0


async def test_the_wish_of_a_client_that_hangs_up_is_dropped(tmp_path: Path) -> None:
    async with _asleep(tmp_path) as (gateway, _):
        asked = asyncio.create_task(gateway.post(PATH, BODY))
        await until_held(gateway, 1)
        asked.cancel()
        await until_held(gateway, 0)
        assert await _wakes(gateway) == [(b"request", b"1.0")]


async def test_a_model_is_woken_by_a_call(tmp_path: Path) -> None:
    async with _asleep(tmp_path) as (gateway, redis), redis.pubsub(LOADS_KEY) as notices:
        status, _, body = await gateway.post("/conch/v1/models/tiny-chat/wake", b'{"for_s": 60}')
        told = json.loads(body)
        assert (status, told["state"]) == (202, "starting")
        assert int(await redis.execute("HGET", WAKES_KEY, ASLEEP.model_id)) == told["awake_until"]
        assert await _wakes(gateway) == [(b"call", b"1.0")]
        assert GatewayLoad.model_validate_json(await anext(notices)).models == {}  # whoever listens looks for wishes
        await gateway.registry.publish({})
        while status != 404:
            status, _, body = await gateway.post("/conch/v1/models/tiny-chat/wake", b"")
        assert json.loads(body)["error"]["code"] == "model_not_found"


async def test_one_more_than_may_be_held_is_refused_at_once(tmp_path: Path) -> None:
    took_s = []
    asleep = route(wakes=True, engines_wanted=False, start_s=600.0, hold_max=HOLD_MAX)
    async with asyncio.timeout(LIMIT_S), gateway_process(tmp_path, asleep, engines=(), hold_s="600") as gateway:
        callers = [await send(gateway) for _ in range(HOLD_MAX)]
        await until_held(gateway, HOLD_MAX)
        for _ in range(20):  # the fastest of them, since machines that test are busy
            began = time.monotonic()
            reader, writer = await send(gateway)
            status, answered = await first_byte(reader)
            assert status == b"429"
            took_s.append(answered - began)
            callers.append((reader, writer))
        for _, writer in callers:
            writer.transport.abort()
    assert min(took_s) < 0.01


async def test_ten_thousand_held_requests_take_little_memory_and_none_of_them_is_lost(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S):
        figures = await hold_crowd(tmp_path, requests=10_000, gateways=3, slots=1_000)
    print(f"{figures.grown_bytes / MIB:.0f} MiB; answered in {figures.waits_s[0]:.1f} to {figures.waits_s[-1]:.1f} s")
    assert figures.answered == 10_000
    assert figures.grown_bytes <= 200 * MIB


async def test_held_requests_have_their_first_byte_soon_after_the_engine_is_there(tmp_path: Path) -> None:
    took_s = []
    async with asyncio.timeout(LIMIT_S):
        for attempt in "abc":  # the fastest of them, since machines that test are busy
            folder = tmp_path / attempt
            folder.mkdir()
            figures = await hold_crowd(folder, requests=20, gateways=1, slots=20)
            assert figures.answered == 20
            took_s.append(figures.waits_s[-1])
    assert min(took_s) < 0.15
