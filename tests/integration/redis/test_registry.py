"""The registry on a real server: what is published is read, and what goes wrong with Redis changes nothing."""

from collections.abc import Mapping
from typing import Any

import pytest

from conch_contracts.names import META_KEY, ROUTES_KEY, ModelId, bundle_key, engines_key
from conch_contracts.records import Engine, Route
from conch_kit.bundles.archive import BundleError, digest
from conch_kit.bundles.store import BundleStore
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryUnavailable
from conch_kit.registry.snapshot import Snapshot
from conch_kit.registry.snapshot_refresh import RegistryReader
from conch_kit.registry.writer import FULL_S, Fenced, RegistryWriter
from testkit.builders.records import engine, listing, route
from testkit.clock import FakeClock
from testkit.servers.redis import RedisServer
from testkit.waiting import eventually

Models = Mapping[ModelId, tuple[Route, tuple[Engine, ...]]]

CHAT = ModelId("local/chat")
OTHER = ModelId("local/other")
ONE = listing((route("chat"), (engine(1), engine(2))))
TWO = listing((route("chat"), (engine(1), engine(2))), (route("other"), (engine(3),)))


async def _published_and_seen(writer: RegistryWriter, reader: RegistryReader, models: Models) -> float:
    await writer.publish(models)
    return await eventually(lambda: set(reader.snapshot.routes) == set(models), "the change")


async def test_a_published_model_is_read_with_its_engines(client: RedisClient) -> None:
    revision = await RegistryWriter(client).publish(ONE)
    async with RegistryReader(client) as reader:
        assert await reader.wait_loaded(30)
        assert reader.snapshot.revision == revision
        assert reader.snapshot.routes[CHAT] == route("chat")
        assert reader.snapshot.engines[CHAT] == (engine(1), engine(2))
        assert reader.snapshot.by_name["chat"] == route("chat")


async def test_an_empty_list_is_a_complete_list(client: RedisClient) -> None:
    async with RegistryReader(client) as reader:
        assert not await reader.wait_loaded(0.1)
        await RegistryWriter(client).publish({})
        assert await reader.wait_loaded(30)
        assert reader.snapshot.routes == {}


async def test_a_notice_brings_a_change_long_before_the_next_relist(client: RedisClient) -> None:
    writer = RegistryWriter(client)
    await writer.publish({})
    async with RegistryReader(client, relist_s=3600) as reader:
        await reader.wait_loaded(30)
        seen: list[Snapshot] = []
        reader.subscribe(seen.append)
        waits = [await _published_and_seen(writer, reader, models) for models in (ONE, TWO, ONE, TWO)]
        assert min(waits) < 1.0  # a look comes only every 2 s, and each wait began just after one
        assert seen[-1] is reader.snapshot


async def test_publishing_the_same_again_changes_nothing(client: RedisClient) -> None:
    writer = RegistryWriter(client)
    first = await writer.publish(TWO)
    async with client.pubsub("conch-test"):
        assert await writer.publish(TWO) == first
    assert await writer.publish(ONE) == first + 1


async def test_the_same_list_is_left_alone_for_a_while_and_then_sent_again(client: RedisClient) -> None:
    clock = FakeClock()
    writer = RegistryWriter(client, clock=clock)
    revision = await writer.publish(ONE)
    await client.execute("HSET", ROUTES_KEY, CHAT, "garbage")
    clock.advance(FULL_S - 1)
    assert await writer.publish(ONE) == revision
    assert await client.execute("HGET", ROUTES_KEY, CHAT) == b"garbage"
    clock.advance(1)
    assert await writer.publish(ONE) == revision + 1
    assert await client.execute("HGET", ROUTES_KEY, CHAT) != b"garbage"


async def test_of_a_list_that_is_there_the_changes_alone_are_sent(
    client: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, execute = list[tuple[Any, ...]](), client.execute

    async def noted(*command: Any, **options: Any) -> Any:
        sent.append(command)
        return await execute(*command, **options)

    monkeypatch.setattr(client, "execute", noted)
    writer = RegistryWriter(client)
    many = [(route(f"model-{number}"), (engine(number),)) for number in range(100)]
    first = await writer.publish(listing(*many))
    assert await writer.publish(listing(*many[1:-1], (many[-1][0], (engine(200),)))) == first + 1
    assert [sum(b"model-" in str(part).encode() for part in command) for command in sent] == [200, 3]
    assert await client.execute("HLEN", ROUTES_KEY) == 99
    assert await client.execute("HKEYS", engines_key(ModelId("local/model-99"))) == [b"127.0.0.1:200"]
    await client.execute("HINCRBY", META_KEY, "revision", 1)  # as by somebody else
    await client.execute("HDEL", ROUTES_KEY, "local/model-5")
    assert await writer.publish(listing(*many)) == first + 3
    assert await client.execute("HLEN", ROUTES_KEY) == 100, "since all of it was sent"


async def test_who_sends_the_same_again_hears_of_a_newer_writer(client: RedisClient) -> None:
    writer = RegistryWriter(client, fence=1)
    await writer.publish(ONE)
    await RegistryWriter(client, fence=2).publish(ONE)
    with pytest.raises(Fenced, match="2"):
        await writer.publish(ONE)


async def test_what_could_not_be_sent_is_sent_again_though_it_is_the_same(
    client: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RegistryWriter(client)
    revision = await writer.publish(ONE)

    async def away(*_: object) -> None:
        raise RegistryUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(client, "execute", away)
        with pytest.raises(RegistryUnavailable):
            await writer.publish(TWO)
    assert await writer.publish(TWO) == revision + 1


async def test_withdrawn_models_and_engines_leave_no_keys(client: RedisClient) -> None:
    writer = RegistryWriter(client)
    await writer.publish(TWO)
    await writer.publish(listing((route("chat"), (engine(2),))))
    assert await client.execute("HKEYS", engines_key(CHAT)) == [b"127.0.0.1:2"]
    assert await client.execute("EXISTS", engines_key(OTHER)) == 0
    assert await client.execute("HKEYS", ROUTES_KEY) == [CHAT.encode()]


async def test_an_older_writer_is_refused(client: RedisClient) -> None:
    await RegistryWriter(client, fence=2).publish(ONE)
    with pytest.raises(Fenced, match="2"):
        await RegistryWriter(client, fence=1).publish({})
    assert await RegistryWriter(client, fence=3).publish(ONE) > 0


@pytest.mark.parametrize("loss", ["flush", "restart"])
async def test_an_emptied_redis_keeps_the_snapshot_until_the_writer_publishes_again(
    server: RedisServer, client: RedisClient, loss: str
) -> None:
    writer = RegistryWriter(client)
    before = await writer.publish(ONE)
    async with RegistryReader(client, relist_s=0.1) as reader:
        await reader.wait_loaded(30)
        assert await writer.is_current()
        server.command("FLUSHALL") if loss == "flush" else server.restart()
        await eventually(lambda: client.available, "Redis to be back")
        for _ in range(3):
            await reader.refresh()
        assert set(reader.snapshot.routes) == {CHAT}
        assert not await writer.is_current()
        assert await writer.publish(TWO) > before
        assert await writer.is_current()
        await eventually(lambda: set(reader.snapshot.routes) == {CHAT, OTHER}, "the new list")


async def test_a_new_writer_of_an_emptied_redis_keeps_what_it_does_not_know_yet(client: RedisClient) -> None:
    await RegistryWriter(client, fence=1).publish(TWO)
    async with RegistryReader(client) as reader, RegistryReader(client) as new:
        await reader.wait_loaded(30)
        before = reader.snapshot
        await client.execute("FLUSHALL")
        writer = RegistryWriter(client, fence=2)
        first = await writer.publish({}, unknown={CHAT: ()})
        assert await writer.publish({}, unknown={CHAT: ()}) == first
        assert await writer.is_current()
        await eventually(lambda: set(reader.snapshot.routes) == {CHAT}, "the list")
        assert reader.snapshot.engines[CHAT] == before.engines[CHAT]
        assert await new.wait_loaded(30)
        assert (new.ignored, reader.ignored) == (0, 0)
        await writer.publish(listing((route("chat"), (engine(7),))))
        await eventually(lambda: reader.snapshot.engines.get(CHAT) == (engine(7),), "its own engine")
        await writer.publish({})
        await eventually(lambda: not reader.snapshot.routes, "its end")


async def test_a_lost_routes_key_is_no_empty_list(client: RedisClient) -> None:
    writer = RegistryWriter(client)
    await writer.publish(ONE)
    async with RegistryReader(client, relist_s=0) as reader:
        await reader.wait_loaded(30)
        await client.execute("DEL", ROUTES_KEY)
        await reader.refresh()
        assert set(reader.snapshot.routes) == {CHAT}
        assert reader.ignored > 0
        assert not await writer.is_current()
        await writer.publish(ONE)
        assert await writer.is_current()


@pytest.mark.parametrize(
    "damage",
    [
        ("HSET", ROUTES_KEY, "local/chat", "garbage"),
        ("HSET", ROUTES_KEY, "local/chat", b"\xff\x00"),
        ("HSET", ROUTES_KEY, "local/chat", '{"schema_version": 2}'),
        ("HSET", engines_key(CHAT), "127.0.0.1:1", "garbage"),
        ("SET", META_KEY, "garbage"),
        ("SET", ROUTES_KEY, "garbage"),
        ("HSET", META_KEY, "revision", "garbage"),
        ("HSET", META_KEY, "epoch", b"\xff"),
        ("HSET", META_KEY, "models", "garbage"),
    ],
    ids=lambda damage: " ".join(map(str, damage)),
)
async def test_a_damaged_value_is_ignored_and_repaired_by_the_next_complete_publication(
    client: RedisClient, damage: tuple[str | bytes, ...]
) -> None:
    clock = FakeClock()
    writer = RegistryWriter(client, clock=clock)
    await writer.publish(ONE)
    async with RegistryReader(client, relist_s=0) as reader:
        await reader.wait_loaded(30)
        if damage[0] == "SET":
            await client.execute("DEL", damage[1])
        await client.execute(*damage)
        await reader.refresh()
        assert reader.snapshot.routes[CHAT] == route("chat")
        assert reader.snapshot.engines[CHAT] == (engine(1), engine(2))
        assert reader.ignored > 0
        clock.advance(FULL_S)
        await writer.publish(TWO)
        await eventually(lambda: set(reader.snapshot.routes) == {CHAT, OTHER}, "the repaired list")


async def test_a_set_back_registry_is_not_believed(client: RedisClient) -> None:
    writer = RegistryWriter(client)
    await writer.publish(TWO)
    async with RegistryReader(client, relist_s=0) as reader:
        await reader.wait_loaded(30)
        await client.execute("HDEL", ROUTES_KEY, OTHER)
        await client.execute("HSET", META_KEY, "revision", "5", "models", "1")
        await reader.refresh()
        assert set(reader.snapshot.routes) == {CHAT, OTHER}
        assert not await writer.is_current()


async def test_a_bundle_comes_back_and_a_forged_one_does_not(client: RedisClient) -> None:
    store, data = BundleStore(client), b"bundle" * 1000
    assert await store.get(digest(data)) is None
    await store.put(digest(data), data)
    assert await store.has(digest(data))
    assert await store.get(digest(data)) == data
    with pytest.raises(BundleError, match="does not fit"):
        await store.put(digest(b"other"), data)
    await client.execute("SET", bundle_key(digest(data)), "forged")
    assert await store.get(digest(data)) is None


async def test_writing_without_redis_says_so(server: RedisServer, client: RedisClient) -> None:
    server.kill()
    with pytest.raises(RegistryUnavailable):
        await RegistryWriter(client).publish(ONE)
