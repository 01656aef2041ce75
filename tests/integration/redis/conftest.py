"""A fresh Redis server for each test, and clients of it: one that waits as long as it must, one as in production."""

from collections.abc import AsyncIterator, Iterator

import pytest

from conch_kit.redis.client import RedisClient
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


@pytest.fixture
async def hasty(server: RedisServer) -> AsyncIterator[RedisClient]:
    """Yield a client with the time-outs of production, for what happens when Redis hangs.

    A busy machine may make it fail against a sound Redis too: write with `client` what a test needs beforehand.
    """
    async with RedisClient(server.url) as connected:
        yield connected
