"""An HTTP/2 connection without a socket: the test plays the server."""

import asyncio
from collections.abc import Callable

from conch_kit.http2 import frames
from conch_kit.http2.connection import Http2Connection
from conch_kit.http2.errors import StreamFailed
from conch_kit.http2.frames import FrameKind
from conch_kit.http2.header_blocks import Headers, write_block

HEAD = write_block(
    ((":method", "POST"), (":scheme", "http"), (":path", "/call"), (":authority", "engine"), ("te", "trailers"))
)
ANSWER_HEAD = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]
NO_TABLE = b"\x20"
"""A server's first header block says that it keeps no table, as it was told."""
STREAM_1_HEAD = frames.frame(FrameKind.HEADERS, frames.END_HEADERS, 1, NO_TABLE + write_block(ANSWER_HEAD))
GREETING = frames.settings({})


class KeptWrites(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False
        self.reads = asyncio.Event()
        self.reads.set()

    def pause_reading(self) -> None:
        self.reads.clear()

    def resume_reading(self) -> None:
        self.reads.set()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "A closed transport is written to."
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True
        self.reads.set()

    def take(self) -> bytes:
        """Return what was written since the last time."""
        taken = bytes(self.written)
        self.written.clear()
        return taken


class Heard:
    """A receiver that remembers."""

    def __init__(self, on_end: Callable[[], None] | None = None) -> None:
        self.stream: int | None = None
        self.heads: list[Headers] = []
        self._body = bytearray()
        self.ends: list[StreamFailed | None] = []
        self._on_end = on_end

    def opened(self, stream: int) -> None:
        self.stream = stream

    def headers(self, headers: Headers) -> None:
        self.heads.append(headers)

    def data(self, payload: bytes) -> None:
        assert not self.ends
        self._body += payload

    def ended(self, error: StreamFailed | None) -> None:
        self.ends.append(error)
        if self._on_end is not None:
            self._on_end()

    @property
    def body(self) -> bytes:
        """All that came."""
        return bytes(self._body)

    @property
    def error(self) -> StreamFailed:
        """The one error that the stream ended with."""
        (error,) = self.ends
        assert error is not None
        return error


class PlayedClient:
    """The connection under test, on a transport that a test plays the server of."""

    def __init__(self) -> None:
        self.transport = KeptWrites()
        self.lost: list[Http2Connection] = []
        self.connection = Http2Connection(self.lost.append)
        self.connection.connection_made(self.transport)

    async def request(self, body: bytes = b"question", **kwargs: Callable[[], None]) -> Heard:
        """Open a stream."""
        heard = Heard(**kwargs)
        self.connection.open(heard, HEAD, body)
        await asyncio.sleep(0)
        return heard

    async def hears(self, data: bytes) -> bytes:
        """Receive bytes, in as many turns as that takes, and return those that it answers with."""
        self.connection.data_received(data)
        await asyncio.sleep(0)
        await self.transport.reads.wait()
        return self.transport.take()
