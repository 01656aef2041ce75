"""The client's connection with a transport in memory."""

import asyncio

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from conch_gateway.http.server_protocol import GuardedProtocol


class FakeTransport(asyncio.Transport):
    """Notes whether it was told to stop reading."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.written = b""

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data):
        self.written += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """Close nothing."""


@pytest.fixture
async def connection():
    release = asyncio.Event()

    async def app(scope, receive, send):
        await release.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    state = ServerState()
    config = Config(app, lifespan="off", log_config=None)
    config.load()
    made = GuardedProtocol(config, state, {})
    made.connection_made(FakeTransport())
    yield made
    made.connection_lost(None)
    release.set()
    await asyncio.gather(*state.tasks)


@pytest.mark.parametrize("size", [10, 200_000])
async def test_a_hang_up_can_be_noticed_after_a_body_of_any_size(connection, size):
    connection.data_received(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
    assert connection.transport.reading


async def test_a_client_that_sends_the_next_request_too_early_is_not_read_any_further(connection):
    connection.data_received(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 2)
    assert not connection.transport.reading
