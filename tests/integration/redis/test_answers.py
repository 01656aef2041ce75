"""The store of equal requests' answers on a real server: what was written under a key comes back, or nothing does.

It gives Redis so little time that a busy machine may need several attempts.
"""

import asyncio
from collections.abc import Callable

import pytest

from conch_contracts.names import CACHE_PREFIX
from conch_gateway.encoders.answer_cache import RedisStore
from conch_kit.redis.client import RedisClient

ANSWER = b'{"rows":[[0.5]]}'


async def keep(store: RedisStore, key: str) -> None:
    async with asyncio.timeout(20):
        while await store.get(key) != ANSWER:
            await store.put(key, ANSWER, ttl_s=60)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: b"",
        lambda value: b"\xff",
        lambda value: ANSWER,
        lambda value: value[:-1],
        lambda value: value + b" ",
        lambda value: value.replace(b"0.5", b"0.6"),
    ],
    ids=["empty", "garbage", "unsealed", "cut", "longer", "another"],
)
async def test_a_value_that_somebody_else_wrote_is_no_answer(
    client: RedisClient, spoil: Callable[[bytes], bytes]
) -> None:
    store = RedisStore(client)
    await keep(store, "a")
    value = await client.execute("GET", CACHE_PREFIX + "a")
    await client.execute("SET", CACHE_PREFIX + "a", spoil(value))
    assert await store.get("a") is None
    await keep(store, "a")


async def test_another_keys_answer_is_none_for_this_one(client: RedisClient) -> None:
    store = RedisStore(client)
    await keep(store, "a")
    value = await client.execute("GET", CACHE_PREFIX + "a")
    await client.execute("SET", CACHE_PREFIX + "b", value)
    assert await store.get("b") is None


async def test_what_is_no_text_in_redis_is_no_answer(client: RedisClient) -> None:
    await client.execute("HSET", CACHE_PREFIX + "a", "field", "value")
    assert await RedisStore(client).get("a") is None
