"""A dead, hung or slow Redis costs callers a bounded time at first and nothing afterwards."""

import asyncio
from contextlib import suppress

import pytest

from conch_contracts.names import CHANGES_CHANNEL, ModelId
from conch_kit.bundles.archive import digest
from conch_kit.bundles.store import BundleStore
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryBusy, RegistryError, RegistryUnavailable
from conch_kit.registry.snapshot_refresh import RegistryReader
from conch_kit.registry.writer import RegistryWriter
from testkit.builders.records import engine, listing, route
from testkit.servers.redis import RedisServer
from testkit.waiting import eventually

CHAT = ModelId("local/chat")


# What takes 0.25 s or a second on an idle machine; without its time-out it would take for ever.
BOUNDED_S = 10.0


async def _fails(client: RedisClient) -> None:
    async with asyncio.timeout(BOUNDED_S):
        with pytest.raises(RegistryUnavailable):
            await client.execute("PING")


async def _connected(client: RedisClient) -> None:
    async with asyncio.timeout(BOUNDED_S):
        while True:
            with suppress(RegistryUnavailable):
                await client.execute("PING")
                return
            await asyncio.sleep(0.01)


async def test_a_killed_redis_is_noticed_and_its_return_too(server: RedisServer, hasty: RedisClient) -> None:
    await _connected(hasty)
    server.kill()
    await _fails(hasty)
    await eventually(lambda: not hasty.available, "an open breaker")
    server.start()
    await eventually(lambda: hasty.available, "a closed breaker")
    await _connected(hasty)


async def test_a_hung_redis_opens_the_breaker_and_then_costs_nothing(server: RedisServer, hasty: RedisClient) -> None:
    await _connected(hasty)
    server.freeze()
    try:
        await _fails(hasty)
        await eventually(lambda: not hasty.available, "an open breaker")
        with pytest.raises(RegistryUnavailable, match="as earlier commands have shown"):
            await hasty.execute("PING")
    finally:
        server.thaw()
    await eventually(lambda: hasty.available, "a closed breaker")


async def test_a_hung_redis_never_holds_a_reader_up(
    server: RedisServer, client: RedisClient, hasty: RedisClient
) -> None:
    await RegistryWriter(client).publish(listing((route("chat"), (engine(),))))
    async with RegistryReader(hasty) as reader:
        await reader.wait_loaded(30)
        server.freeze()
        try:
            turns = 0
            while hasty.available:
                assert CHAT in reader.snapshot.routes
                await asyncio.sleep(0)
                turns += 1
            assert turns > 100
        finally:
            server.thaw()


async def test_a_hung_subscription_is_noticed_and_made_again(
    server: RedisServer, client: RedisClient, hasty: RedisClient
) -> None:
    server.freeze()
    async with asyncio.timeout(BOUNDED_S):
        with pytest.raises(RegistryUnavailable):
            async with hasty.pubsub(CHANGES_CHANNEL, ping_s=0.1) as messages:
                await anext(messages)
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
        await reader.wait_loaded(30)
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


async def test_a_timed_out_command_never_leaves_its_reply_to_another_caller(server: RedisServer) -> None:
    async with RedisClient(server.url, connect_timeout_s=BOUNDED_S, command_timeout_s=2.0) as client:
        assert await client.execute("ECHO", "first") == b"first"
        server.freeze()
        await _fails(client)
        server.thaw()
        for number in range(20):
            assert await client.execute("ECHO", str(number)) == str(number).encode()


async def test_a_bundle_is_waited_for_while_redis_is_away_for_a_moment(
    server: RedisServer, client: RedisClient, hasty: RedisClient
) -> None:
    data = b"bundle" * 1000
    await BundleStore(client).put(digest(data), data)
    server.freeze()
    await _fails(hasty)
    await eventually(lambda: not hasty.available, "the breaker to open")
    with pytest.raises(RegistryUnavailable):
        await BundleStore(hasty, patience_s=0.0).get(digest(data))
    waiting = asyncio.create_task(BundleStore(hasty, patience_s=30.0).get(digest(data)))
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


NOTHING_COMES = ("BLPOP", "nothing comes here")


async def test_transfers_that_fail_do_not_keep_others_from_a_sound_redis(client: RedisClient) -> None:
    assert await client.execute("PING") == b"PONG"
    for _ in range(5):  # more than open the breaker, before the client can have asked Redis itself
        with pytest.raises(RegistryUnavailable, match="did not answer"):
            await client.execute(*NOTHING_COMES, 60, timeout_s=0.001)
        assert client.available
    assert await client.execute("PING") == b"PONG"


async def test_transfers_alone_find_out_that_redis_hangs(server: RedisServer, hasty: RedisClient) -> None:
    await _connected(hasty)
    server.freeze()
    try:
        with pytest.raises(RegistryUnavailable):
            await hasty.execute("GET", "a", timeout_s=0.05)
        await eventually(lambda: not hasty.available, "an open breaker")
    finally:
        server.thaw()
    await eventually(lambda: hasty.available, "a closed breaker")


async def test_a_command_has_all_its_time_after_it_waited_for_a_connection(client: RedisClient) -> None:
    wait_s, limit_s = 1.2, 2.0
    transfers = (client.execute(*NOTHING_COMES, wait_s, timeout_s=limit_s) for _ in range(4))  # on two connections
    assert await asyncio.gather(*transfers) == [None] * 4


async def test_callers_that_find_no_free_connection_say_nothing_about_redis(client: RedisClient) -> None:
    holding = [asyncio.create_task(client.execute(*NOTHING_COMES, 60, timeout_s=60.0)) for _ in range(2)]
    await asyncio.sleep(0)
    for _ in range(5):
        with pytest.raises(RegistryBusy, match="in use"):
            await client.execute("ECHO", "x", timeout_s=0.001)
        assert client.available
    for task in holding:
        task.cancel()
    await asyncio.gather(*holding, return_exceptions=True)
    assert await client.execute("ECHO", "x", timeout_s=20.0) == b"x"


async def test_short_commands_that_find_no_free_connection_say_nothing_about_redis(server: RedisServer) -> None:
    wait_s, limit_s = 1.2, 2.0
    async with RedisClient(server.url, connect_timeout_s=20.0, command_timeout_s=limit_s) as client:
        calls = [asyncio.create_task(client.execute(*NOTHING_COMES, wait_s)) for _ in range(12)]  # on four connections
        await asyncio.wait(calls[8:])
        assert [type(call.exception()) for call in calls[8:]] == [RegistryBusy] * 4
        assert client.available
        assert await asyncio.gather(*calls[:8]) == [None] * 8
