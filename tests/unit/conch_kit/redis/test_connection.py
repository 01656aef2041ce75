"""One connection to a server that takes commands and answers none."""

import asyncio

import pytest

from conch_kit.redis.connection import RedisConnection
from conch_kit.redis.errors import RegistryUnavailable
from conch_kit.redis.server_address import ServerAddress


async def test_a_connection_whose_caller_goes_in_the_middle_is_closed_on_the_spot() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            asked.set()
        closed.set()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = RedisConnection(ServerAddress.parse(f"redis://127.0.0.1:{port}/0"), connect_timeout_s=60)
        command = asyncio.create_task(connection.roundtrip([("PING",)]))
        await asked.wait()
        assert connection.connected
        command.cancel()
        with pytest.raises(asyncio.CancelledError):
            await command
        assert not connection.connected
        await closed.wait()


async def test_a_server_that_lets_nobody_in_is_waited_for_only_so_long() -> None:
    closed = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            pass
        closed.set()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        address = ServerAddress.parse(f"redis://:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}/0")
        connection = RedisConnection(address, connect_timeout_s=0.05)
        with pytest.raises(RegistryUnavailable, match=r"took no connection within 0\.05 s"):
            await asyncio.wait_for(connection.roundtrip([("PING",)]), 30)
        assert not connection.connected
        await asyncio.wait_for(closed.wait(), 30)
