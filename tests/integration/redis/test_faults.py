"""A dead, hung or slow Redis costs callers a bounded time at first and nothing afterwards."""

import asyncio
import time

import pytest

from conch_contracts.names import CHANGES_CHANNEL, ModelId
from conch_kit.bundles import digest
from conch_kit.redis_client import RedisClient, RegistryError, RegistryUnavailable
from conch_kit.registry import BundleStore, RegistryReader, RegistryWriter
from testkit.records import engine, listing, route
from testkit.servers.redis import RedisServer
from testkit.waiting import eventually

CHAT = ModelId("local/chat")


async def _fails_after(client: RedisClient) -> float:
    started = time.monotonic()
    with pytest.raises(RegistryUnavailable):
        await client.execute("PING")
    return time.monotonic() - started


async def test_a_killed_redis_is_noticed_and_its_return_too(server: RedisServer, client: RedisClient) -> None:
    assert await client.execute("PING") == b"PONG"
    server.kill()
    assert await _fails_after(client) < 0.3
    assert await eventually(lambda: not client.available, "an open breaker") < 1.0
    server.start()
    assert await eventually(lambda: client.available, "a closed breaker") < 5.0
    assert await client.execute("PING") == b"PONG"


async def test_a_hung_redis_opens_the_breaker_within_a_second_of_one_command(
    server: RedisServer, client: RedisClient
) -> None:
    assert await client.execute("PING") == b"PONG"
    server.freeze()
    try:
        assert await _fails_after(client) < 0.35
        assert await eventually(lambda: not client.available, "an open breaker") < 1.0
        assert await _fails_after(client) < 0.01
    finally:
        server.thaw()
    assert await eventually(lambda: client.available, "a closed breaker") < 5.0


async def test_a_hung_redis_never_holds_a_reader_up(server: RedisServer, client: RedisClient) -> None:
    await RegistryWriter(client).publish(listing((route("chat"), (engine(),))))
    async with RegistryReader(client) as reader:
        await reader.wait_loaded(5)
        server.freeze()
        try:
            worst = 0.0
            until = time.monotonic() + 1.5
            while time.monotonic() < until:
                started = time.monotonic()
                assert CHAT in reader.snapshot.routes
                await asyncio.sleep(0)
                worst = max(worst, time.monotonic() - started)
            assert worst < 0.1
        finally:
            server.thaw()


async def test_a_hung_subscription_is_noticed_and_made_again(server: RedisServer, client: RedisClient) -> None:
    server.freeze()
    started = time.monotonic()
    with pytest.raises(RegistryUnavailable):
        async with client.pubsub(CHANGES_CHANNEL, ping_s=0.1) as messages:
            await anext(messages)
    assert time.monotonic() - started < 1.0
    server.thaw()
    async with client.pubsub(CHANGES_CHANNEL, ping_s=0.05) as messages:
        server.freeze()
        with pytest.raises(RegistryUnavailable, match="silent"):
            await anext(messages)
    server.thaw()


async def test_a_quiet_subscription_stays(client: RedisClient) -> None:
    async with client.pubsub("news", ping_s=0.02) as messages:
        next_message = asyncio.ensure_future(anext(messages))
        await asyncio.wait([next_message], timeout=0.2)
        await client.execute("PUBLISH", "news", "hello")
        assert await next_message == b"hello"


async def test_reading_goes_on_after_redis_was_killed(server: RedisServer, client: RedisClient) -> None:
    writer = RegistryWriter(client)
    models = listing((route("chat"), (engine(),)))
    await writer.publish(models)
    async with RegistryReader(client) as reader:
        await reader.wait_loaded(5)
        server.kill()
        await reader.refresh()
        assert CHAT in reader.snapshot.routes
        server.start()
        await eventually(lambda: client.available, "Redis to be back")
        more = listing((route("chat"), (engine(),)), (route("other"), (engine(),)))
        await writer.publish(more)
        await eventually(lambda: len(reader.snapshot.routes) == 2, "the new route")


async def test_a_cancelled_command_never_leaves_its_reply_to_another_caller(client: RedisClient) -> None:
    async def ask(number: int) -> None:
        assert await client.execute("ECHO", str(number)) == str(number).encode()

    for round_number in range(100):
        tasks = [asyncio.create_task(ask(round_number * 20 + number)) for number in range(20)]
        await asyncio.sleep(0.0005 * (round_number % 7))
        for task in tasks[::2]:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert outcome is None or isinstance(outcome, asyncio.CancelledError)


async def test_a_timed_out_command_never_leaves_its_reply_to_another_caller(
    server: RedisServer, client: RedisClient
) -> None:
    assert await client.execute("ECHO", "first") == b"first"
    server.freeze()
    await _fails_after(client)
    server.thaw()
    await eventually(lambda: client.available, "Redis to be back")
    for number in range(20):
        assert await client.execute("ECHO", str(number)) == str(number).encode()


async def test_a_bundle_is_waited_for_while_redis_is_away_for_a_moment(
    server: RedisServer, client: RedisClient
) -> None:
    data = b"bundle" * 1000
    await BundleStore(client).put(digest(data), data)
    server.freeze()
    await _fails_after(client)
    await eventually(lambda: not client.available, "the breaker to open")
    with pytest.raises(RegistryUnavailable):
        await BundleStore(client, patience_s=0.0).get(digest(data))
    waiting = asyncio.create_task(BundleStore(client, patience_s=10.0).get(digest(data)))
    server.thaw()
    assert await waiting == data


async def test_an_error_reply_is_no_failure_of_redis(client: RedisClient) -> None:
    for _ in range(5):
        with pytest.raises(RegistryError, match="unknown command"):
            await client.execute("NONSENSE")
    assert client.available
    replies = await client.pipeline([("SET", "a", "1"), ("NONSENSE",), ("GET", "a")])
    assert replies[0] == b"OK"
    assert isinstance(replies[1], RegistryError)
    assert replies[2] == b"1"


async def test_a_large_transfer_does_not_hold_short_commands_up(client: RedisClient) -> None:
    data = bytes(32 * 1024 * 1024)
    transfer = asyncio.create_task(client.execute("SET", "large", data, timeout_s=20.0))
    while not transfer.done():
        assert await client.execute("PING", timeout_s=5.0) == b"PONG"
    assert await transfer == b"OK"
    assert await client.execute("GET", "large", timeout_s=20.0) == data
    assert client.available
