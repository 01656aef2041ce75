"""The server on a socket of its own."""

import asyncio
import socket

import pytest

from conch_kit.http.asgi import Receive, Scope, Send
from conch_kit.http_server.server import HttpServer


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer nothing: nobody asks."""


async def test_a_server_that_has_ended_takes_no_connection() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    place = listener.getsockname()
    async with HttpServer(app).serving(listener):
        _, writer = await asyncio.open_connection(*place)
        writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*place)
