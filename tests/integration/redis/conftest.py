"""A fresh Redis server for each test, and clients of it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from conch_kit.redis_client import RedisClient
from testkit.servers.redis import RedisServer


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[RedisClient]:
    async with RedisClient(server.url) as connected:
        yield connected
