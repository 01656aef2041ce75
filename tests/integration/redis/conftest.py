"""A fresh Redis server for each test, and clients of it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from conch_kit.redis_client import RedisClient
from testkit.patient_redis import patient_redis
from testkit.servers.redis import RedisServer


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[RedisClient]:
    async with patient_redis(server.url) as connected:
        yield connected
