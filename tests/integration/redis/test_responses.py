"""The store of responses on a real server: what is kept is found until its time is over, and nothing hangs."""

import time

import orjson
import pytest

from conch_contracts.names import RESPONSE_PREFIX
from conch_gateway.responses.store import RedisResponses
from conch_kit.errors import Unavailable
from conch_kit.redis.client import RedisClient
from testkit.servers.redis import RedisServer
from testkit.waiting import eventually

ID = "resp_" + "a" * 32
RECORD = orjson.dumps({"response": {"id": ID}, "input": []})


async def test_a_record_is_found_by_its_owner_alone_and_deleted_once(client: RedisClient) -> None:
    store = RedisResponses(client, ttl_s=60)
    assert await store.put("ann", ID, RECORD)
    assert await store.get("ann", ID) == orjson.loads(RECORD)
    assert await store.get("bob", ID) is None
    assert not await store.delete("bob", ID)
    assert await store.delete("ann", ID)
    assert not await store.delete("ann", ID)


async def test_every_record_has_a_time_to_live(client: RedisClient) -> None:
    await RedisResponses(client, ttl_s=60).put("ann", ID, RECORD)
    (key,) = await client.execute("KEYS", RESPONSE_PREFIX + "*")
    assert 0 < await client.execute("PTTL", key) <= 60_000
    short = RedisResponses(client, ttl_s=0.05)
    await short.put("ann", ID, RECORD)

    async def gone() -> bool:
        return await short.get("ann", ID) is None

    deadline = time.monotonic() + 10
    while not await gone():
        assert time.monotonic() < deadline


async def test_a_megabyte_is_kept_as_well(client: RedisClient) -> None:
    store = RedisResponses(client, ttl_s=60)
    record = orjson.dumps({"response": {"text": "x" * 1_000_000}, "input": []})
    assert await store.put("ann", ID, record)
    assert await store.get("ann", ID) == orjson.loads(record)


@pytest.mark.parametrize("made_up", ["", "x", "resp_1", "resp_" + "A" * 32, "../" + ID, ID + "*"])
async def test_an_id_that_is_none_of_ours_is_unknown(client: RedisClient, made_up: str) -> None:
    store, key = RedisResponses(client, ttl_s=60), f"{RESPONSE_PREFIX}ann:{made_up}"
    await client.execute("SET", key, RECORD)
    assert await store.get("ann", made_up) is None
    assert not await store.delete("ann", made_up)
    assert await client.execute("GET", key) == RECORD


@pytest.mark.parametrize("fault", ["killed", "frozen"])
async def test_without_redis_reading_says_so_and_keeping_fails_in_time(
    server: RedisServer, client: RedisClient, hasty: RedisClient, fault: str
) -> None:
    await RedisResponses(client, ttl_s=60).put("ann", ID, RECORD)
    store = RedisResponses(hasty, ttl_s=60)
    server.kill() if fault == "killed" else server.freeze()
    try:
        with pytest.raises(Unavailable):
            await store.get("ann", ID)
        assert not await store.put("ann", ID, RECORD)
        with pytest.raises(Unavailable):
            await store.delete("ann", ID)
    finally:
        server.start() if fault == "killed" else server.thaw()
    await eventually(lambda: hasty.available, "Redis")
    assert await RedisResponses(client, ttl_s=60).put("ann", ID, RECORD)
