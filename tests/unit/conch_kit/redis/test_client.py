"""What a client leaves behind; how it meets servers that die, hang and come back is in `integration/`."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryUnavailable
from testkit.waiting import eventually


class Server:
    """Says PONG to whatever comes, and counts its connections."""

    def __init__(self) -> None:
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while await reader.read(1000):
            writer.write(b"+PONG\r\n")
        self.connections -= 1
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    found = Server()
    async with await asyncio.start_server(found.serve, "127.0.0.1", 0) as listening:
        found.url = f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}/0"
        yield found


def patient(url: str) -> RedisClient:
    return RedisClient(url, connect_timeout_s=60, command_timeout_s=60)


async def test_no_connection_outlives_its_client(server: Server) -> None:
    async with patient(server.url) as client:
        assert await client.execute("PING") == b"PONG"
        assert await client.execute("GET", "a", timeout_s=60) == b"PONG"
        assert server.connections == 2
    await eventually(lambda: server.connections == 0, "the end of both connections")


async def test_one_task_asks_whether_redis_is_back_and_ends_with_its_client() -> None:
    async with asyncio.timeout(60), patient("redis://127.0.0.1:9/0") as client:
        for _ in range(3):  # they say nothing of Redis by themselves, so each is tried
            with pytest.raises(RegistryUnavailable):
                await client.execute("GET", "a", timeout_s=60)
        assert asking() == 1
        await eventually(lambda: not client.available, "an open breaker")
        assert asking() == 1
    assert asking() == 0


def asking() -> int:
    coroutines = (task.get_coro() for task in asyncio.all_tasks())
    return sum(getattr(one, "__qualname__", "") == "RedisClient._probe" for one in coroutines)
