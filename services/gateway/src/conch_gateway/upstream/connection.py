"""One HTTP/1.1 client connection on asyncio and httptools; `connection_pool` keeps them alive and hands them out.

The parser calls back while data arrives; the one reader waits on a future. Pieces that arrive together are read
together, and a reader that lags pauses the socket.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from conch_contracts.names import WorkerUrl
from conch_gateway.upstream.port import AnswerLost, BodySource

HIGH_WATER_BYTES = 64 * 1024
MAX_HEAD_BYTES = 64 * 1024


class UpstreamConnection(asyncio.Protocol):
    """A connection that carries one exchange at a time."""

    __slots__ = (
        "_buffered",
        "_chunks",
        "_complete",
        "_head",
        "_head_bytes",
        "_keeps_alive",
        "_loop",
        "_lost",
        "_on_lost",
        "_parser",
        "_paused",
        "_sink",
        "_stray",
        "_transport",
        "_unsent",
        "_until_eof",
        "_waiter",
        "_write_paused",
        "busy",
        "given_up",
        "headers",
        "idle_since",
        "received",
        "status",
        "url",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_lost: Callable[["UpstreamConnection"], None], url: WorkerUrl
    ) -> None:
        self.url = url
        self.given_up = False
        self._loop = loop
        self._on_lost = on_lost
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._lost = False
        self._paused = False
        self._write_paused = False
        self._unsent = False
        """Whether some of a request was not sent."""
        self.busy = False
        self.idle_since = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._sink: Callable[[bytes], bool] | None = None
        self._reset()

    def _reset(self) -> None:
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._head = False
        self._head_bytes = 0
        self._complete = False
        self._until_eof = False
        self._stray = False
        self._keeps_alive = False
        self.received = False
        self.status = 0
        self.headers: dict[bytes, bytes] = {}

    # --- the exchange ----------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Write one request; the head of its answer is next."""
        self._reset()
        self.busy = True
        if self._transport is not None:
            self._transport.write(data)

    async def send_rest(self, rest: BodySource) -> None:
        """Write what follows of a request, as fast as the other side takes it; end early when that answers or is gone.

        What has an answer already, or nobody to read it, need not be sent.
        """
        self._unsent = True
        sent = 0
        while sent < rest.size:
            piece = await rest.piece(sent)
            while self._write_paused and not (self._head or self._lost):
                await self._wait()
            if self._head or self._lost or self._transport is None:
                return
            self._transport.write(piece)
            sent += len(piece)
        self._unsent = False

    async def wait_head(self) -> None:
        """Wait until status and headers are known; raises AnswerLost."""
        while not self._head:
            self._check_alive()
            await self._wait()

    async def read(self) -> bytes:
        """Return what has arrived since the last call, waiting for the first byte; empty at the end."""
        while not self._chunks:
            if self._complete:
                return b""
            self._check_alive()
            await self._wait()
        piece = self._take()
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    async def push(self, sink: Callable[[bytes], bool]) -> None:
        """Offer each piece to `sink` the moment it arrives; see `UpstreamResponse.push`."""
        while not (self._chunks or self._complete):
            self._check_alive()
            self._sink = sink
            try:
                await self._wait()
            finally:
                self._sink = None

    def finish(self) -> bool:
        """End the exchange; return whether the connection can carry another one, and close it if not."""
        spoilt = self._chunks or self._lost or self._stray or self._until_eof or self._unsent
        reusable = self._complete and not spoilt and self._keeps_alive
        self.busy = False
        if not reusable:
            self.abort()
        return reusable

    def abort(self) -> None:
        """Close at once, so that the other side notices."""
        if self._transport is not None:
            self._transport.abort()

    def give_up(self) -> None:
        """Close because the other side has fallen silent; its answer is lost, and is not to be had there again."""
        self.given_up = True
        self.abort()

    @property
    def waits(self) -> bool:
        """Whether a request was sent and the head of its answer has not come."""
        return self.busy and not (self._head or self._lost)

    @property
    def usable(self) -> bool:
        """Whether a new exchange may begin."""
        return not self._lost and self._transport is not None and not self._transport.is_closing()

    def _take(self) -> bytes:
        chunks = self._chunks
        self._chunks = []
        self._buffered = 0
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _offer(self, sink: Callable[[bytes], bool]) -> None:
        """Push what one read of the socket brought, or keep it and wake the reader."""
        piece = self._take()
        if not sink(piece):
            self._chunks.append(piece)
            self._buffered = len(piece)
            self._wake()

    def _check_alive(self) -> None:
        if self._lost:
            raise AnswerLost("The connection broke before the answer was complete.", started=self._head)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- asyncio calls these ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; what arrives unasked, or is not HTTP, ends the connection."""
        if not self.busy or self._complete:
            self._fail()
            return
        self.received = True
        if not self._head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail()
            return
        if self._sink is not None and self._chunks:
            self._offer(self._sink)
        if not self._head and self._head_bytes > MAX_HEAD_BYTES:
            self._fail()
        elif self._buffered > HIGH_WATER_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Let the rest of a request wait: the other side is slower."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """Go on with it."""
        self._write_paused = False
        self._wake()

    def eof_received(self) -> None:
        """Let the transport close: a server that has said all it will say cannot answer again."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the reader, or the pool when nobody reads."""
        if self._head and self._until_eof and exc is None:
            self._complete = True
        self._lost = True
        del self._parser  # it holds this connection
        self._on_lost(self)
        self._wake()

    def _fail(self) -> None:
        self._lost = True
        self.abort()
        self._wake()

    # --- httptools calls these -------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Give up a connection that sends a second answer to one request."""
        if self._complete:
            self._stray = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header under its lower-case name."""
        if self._stray:
            return
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Release whoever waits for the head; an interim answer (1xx) is not one."""
        if self._stray:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers = {}
            return
        self._head = True
        self._until_eof = b"content-length" not in self.headers and b"transfer-encoding" not in self.headers
        self._wake()

    def on_body(self, body: bytes) -> None:
        """Queue a piece of the body."""
        if self._stray:
            return
        self._chunks.append(body)
        self._buffered += len(body)
        if self._sink is None:
            self._wake()

    def on_message_complete(self) -> None:
        """Mark the end of the body."""
        if self._head:
            self._complete = True
            # Only here: the parser forgets what the answer said once the message is over.
            self._keeps_alive = self._parser.should_keep_alive()
            self._wake()
