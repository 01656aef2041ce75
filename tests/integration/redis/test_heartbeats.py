"""Processes announce themselves on a real server; the readers' own clock decides who is alive."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from conch_contracts.names import EngineAddress, workers_key
from conch_contracts.records import Pool
from conch_kit.redis.client import RedisClient
from conch_kit.registry.heartbeat import GatewayBeatWriter, HeartbeatWriter
from conch_kit.registry.snapshot_refresh import RegistryReader
from conch_kit.registry.writer import RegistryWriter
from testkit.clock import FakeClock
from testkit.servers.redis import RedisServer
from testkit.waiting import eventually

URL = "http://127.0.0.1:1234"


def _writer(client: RedisClient, url: str = URL) -> HeartbeatWriter:
    return HeartbeatWriter(client, Pool.LLM, url, in_flight=lambda: 3, draining=lambda: False, interval_s=0.05)


def _urls(reader: RegistryReader) -> list[str]:
    return [beat.url for beat in reader.snapshot.workers[Pool.LLM]]


async def test_a_process_appears_with_its_load_and_disappears_when_it_ends(client: RedisClient) -> None:
    await RegistryWriter(client).publish({})
    async with RegistryReader(client, pools=[Pool.LLM]) as reader:
        await reader.wait_loaded(30)
        async with _writer(client):
            await eventually(lambda: _urls(reader) == [URL], "the process")
            assert reader.snapshot.workers[Pool.LLM][0].in_flight == 3
        await reader.refresh()
        assert _urls(reader) == []
        assert await client.execute("EXISTS", workers_key(Pool.LLM)) == 0


async def test_readers_know_which_engines_stream_to_a_process(client: RedisClient) -> None:
    await RegistryWriter(client).publish({})
    engine = EngineAddress("10.0.0.1:8001")
    streaming: set[tuple[EngineAddress, str]] = set()
    async with RegistryReader(client, pools=[Pool.LLM]) as reader:
        writer = HeartbeatWriter(
            client, Pool.LLM, URL, in_flight=lambda: 1, draining=lambda: False, streaming=lambda: streaming
        )
        for now in ({(engine, "chat")}, set()):
            streaming = now
            await writer.beat()
            await reader.refresh()
            assert reader.is_streaming(engine, "chat") is bool(now)
            assert not reader.is_streaming(engine, "other")
            assert not reader.is_streaming(EngineAddress("10.0.0.1:8002"), "chat")


async def test_coming_and_going_are_seen_at_once(client: RedisClient) -> None:
    await RegistryWriter(client).publish({})
    async with RegistryReader(client, pools=[Pool.LLM], relist_s=3600) as reader:
        await reader.wait_loaded(30)
        comings, goings = [], []
        for _ in range(3):
            async with _writer(client):
                comings.append(await eventually(lambda: _urls(reader) == [URL], "the process"))
            goings.append(await eventually(lambda: _urls(reader) == [], "its end"))
        # A look comes only every 2 s, and each wait but the first began just after one.
        assert min(comings[1:]) < 1.0
        assert min(goings) < 1.0


async def test_a_process_that_stands_still_is_dropped_after_six_seconds(client: RedisClient) -> None:
    clock = FakeClock()
    await RegistryWriter(client).publish({})
    await _writer(client).beat()
    reader = RegistryReader(client, pools=[Pool.LLM], clock=clock)
    for seconds, alive in [(0.0, [URL]), (6.0, [URL]), (0.1, [])]:
        clock.advance(seconds)
        await reader.refresh()
        assert _urls(reader) == alive


@pytest.mark.parametrize("republished", [True, False])
async def test_an_emptied_redis_drops_nobody_who_goes_on_beating(
    server: RedisServer, client: RedisClient, *, republished: bool
) -> None:
    await RegistryWriter(client).publish({})
    reader = RegistryReader(client, pools=[Pool.LLM])
    process = _writer(client)
    await process.beat()
    await reader.refresh()
    server.command("FLUSHALL")
    if republished:
        await RegistryWriter(client).publish({})
    for _ in range(3):
        await reader.refresh()
        assert _urls(reader) == [URL]
    await process.beat()
    await reader.refresh()
    assert _urls(reader) == [URL]


async def test_beats_go_on_after_redis_was_away(server: RedisServer, client: RedisClient) -> None:
    await RegistryWriter(client).publish({})
    async with RegistryReader(client, pools=[Pool.LLM]) as reader, _writer(client):
        await eventually(lambda: reader.loaded and _urls(reader) == [URL], "the process")
        server.restart()
        await eventually(lambda: server.command("EXISTS", workers_key(Pool.LLM)) == b":1\r\n", "the next beat")
        assert _urls(reader) == [URL]


async def test_the_operator_sees_what_each_gateway_has_applied(client: RedisClient) -> None:
    writer = RegistryWriter(client)
    async with GatewayBeatWriter(client, "gateway-1", revision=lambda: 7):
        await eventually(lambda: client.available, "Redis")
        beat = GatewayBeatWriter(client, "gateway-2", revision=lambda: 8)
        await beat.beat()
        assert {found.id: found.revision for found in await writer.gateways()} == {"gateway-1": 7, "gateway-2": 8}


async def test_a_damaged_beat_is_ignored(client: RedisClient) -> None:
    await RegistryWriter(client).publish({})
    await _writer(client).beat()
    await client.execute("HSET", workers_key(Pool.LLM), "http://other", "garbage")
    reader = RegistryReader(client, pools=[Pool.LLM])
    await reader.refresh()
    assert _urls(reader) == [URL]
    assert reader.ignored == 1


async def test_a_gateway_tells_at_once_that_it_has_applied_another_revision(client: RedisClient) -> None:
    publisher, applied = RegistryWriter(client), [1]

    async def told() -> int:
        return max((beat.revision for beat in await publisher.gateways()), default=0)

    async with GatewayBeatWriter(client, "g", revision=lambda: applied[0], interval_s=3600) as beats:
        await eventually_told(told, 1)
        applied[0] = 2
        assert beats.applied(2)
        await eventually_told(told, 2)
        assert not beats.applied(2)


async def eventually_told(told: Callable[[], Awaitable[int]], revision: int) -> None:
    async with asyncio.timeout(30):
        while await told() != revision:  # noqa: ASYNC110 - the record is another's, and nothing tells of it
            await asyncio.sleep(0.01)
