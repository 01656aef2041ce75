"""The server on a socket of its own."""

import asyncio
import socket

import pytest

from conch_kit.deadlines import deadlines
from conch_kit.http.asgi import Receive, Scope, Send
from conch_kit.http_server.server import HttpServer
from testkit.waiting import eventually


async def silent(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer nothing: nobody asks."""


async def test_a_server_that_has_ended_takes_no_connection() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    place = listener.getsockname()
    async with HttpServer(silent).serving(listener):
        _, writer = await asyncio.open_connection(*place)
        writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*place)


async def test_the_end_of_a_server_cuts_what_is_under_way() -> None:
    begun, cut = asyncio.Event(), asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()

    listener = socket.create_server(("127.0.0.1", 0))
    async with HttpServer(endless).serving(listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await asyncio.wait_for(begun.wait(), 30)
    assert cut.is_set()
    writer.close()


async def test_nothing_is_kept_of_connections_and_requests_that_are_over() -> None:
    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    listener = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(answering)
    async with server.serving(listener):
        for _ in range(3):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert len(server._connections) == 1
            writer.close()
            await eventually(lambda: not server._connections, "the end of the connection")
        assert (server._requests, deadlines()._all) == (set(), set())
