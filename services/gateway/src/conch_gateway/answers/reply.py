"""The answer to one request, through ASGI: a whole body, or a stream that may end with an error frame.

Status and headers go out once. Before they do an error is a status; afterwards it is a frame and the end. Whatever is
sent waits for a client that has left too much unread, and not for ever: `ClientStalled` ends that.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from conch_gateway.answers.protocols import OPENAI, AnswerProtocol
from conch_gateway.http.client_connection import ClientConnection
from conch_gateway.http.exchange import Exchange
from conch_gateway.inference.watchdog import ClientStalled
from conch_kit.errors import BodyTooLarge, RateLimited, RequestTimeout, ServiceError
from conch_kit.http.asgi import Message, Send

JSON = (b"content-type", b"application/json")
STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
PROCESSING_MS = b"openai-processing-ms"
_INTERNAL_HEADERS = (b"x-conch-retryable", b"x-request-id")


class Reply:
    """Sends one answer, and records its status in the exchange. Everything that sends raises ClientStalled."""

    __slots__ = (
        "_begin_lock",
        "_clock",
        "_exchange",
        "_send_on",
        "_stall_s",
        "_stalled",
        "begun",
        "client",
        "ended",
        "error_frame",
        "protocol",
    )

    def __init__(
        self,
        send: Send,
        exchange: Exchange,
        client: ClientConnection,
        *,
        stall_s: float,
        protocol: AnswerProtocol = OPENAI,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`stall_s` is how long one message may wait for the client to read."""
        self.protocol = protocol
        self._send_on = send
        self._stall_s = stall_s
        self._stalled = False
        self._clock = clock
        self._exchange = exchange
        self.client = client
        """Its `push` is the fast way for `chunk`, after `begin_stream`."""
        self.error_frame: Callable[[ServiceError, str], bytes] = protocol.error_frame
        """What an error is once the stream has begun, with the request's id."""
        self._begin_lock: asyncio.Lock | None = None
        self.begun = False
        self.ended = False

    async def whole(self, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] = (JSON,)) -> None:
        """Send a complete answer."""
        self._exchange.status = status
        self.begun = self.ended = True
        length = (b"content-length", b"%d" % len(body))
        all_headers = [*headers, length, self._time_taken(), *self._exchange.reply_headers]
        await self._send({"type": "http.response.start", "status": status, "headers": all_headers})
        await self._send({"type": "http.response.body", "body": body})

    async def begin_stream(self) -> None:
        """Send status 200 and the headers of an event stream, once."""
        if self._begin_lock is None:
            self._begin_lock = asyncio.Lock()
        async with self._begin_lock:
            if self.begun:
                return
            self._exchange.status = 200
            headers = [*STREAM_HEADERS, self._time_taken(), *self._exchange.reply_headers]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            self.begun = True

    async def chunk(self, data: bytes) -> None:
        """Send a piece of the stream; waits while the client's buffer is full."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def keep_alive(self) -> None:
        """Commit to a stream, and send what clients skip."""
        await self.begin_stream()
        await self.chunk(self.protocol.keep_alive)

    async def end_stream(self) -> None:
        """End the stream."""
        self.ended = True
        await self._send({"type": "http.response.body", "body": b""})

    async def fail(self, error: ServiceError) -> None:
        """Send the error as a status, or as the last frame of a stream that has begun."""
        if self.ended:
            return
        self._exchange.error_code = error.code
        if error.status >= 500 or isinstance(error, RateLimited):
            self._exchange.fault = error.fields()["message"]
        if self.begun:
            await self.chunk(self.error_frame(error, self._exchange.request_id))
            await self.end_stream()
            return
        headers = [header for header in error.headers() if header[0] not in _INTERNAL_HEADERS]
        if isinstance(error, BodyTooLarge | RequestTimeout):
            headers.append((b"connection", b"close"))  # the rest of the body will not be read
        status, body = self.protocol.error(error, self._exchange.request_id)
        await self.whole(status, body, headers)

    async def _send(self, message: Message) -> None:
        if self._stalled:
            raise ClientStalled
        if self.client.push(b""):  # there is room, so nothing waits and no time-out is needed
            await self._send_on(message)
            return
        try:
            async with asyncio.timeout(self._stall_s):
                await self._send_on(message)
        except TimeoutError:
            self._stalled = True
            raise ClientStalled from None

    def _time_taken(self) -> tuple[bytes, bytes]:
        """Return how long the client waits for this head, as a header."""
        return PROCESSING_MS, b"%d" % ((self._clock() - self._exchange.started) * 1000)
