"""uvicorn's HTTP protocol with the limits that uvicorn lacks: on a request's head, and on answers that nobody reads.

A head has a size, a time, a Host and a plain path. Without the limits a client may hold a connection for ever with half
a header, send headers without end, or leave an answer unread.
"""

import asyncio
import re
from collections.abc import Callable
from os import urandom
from typing import Any

import orjson

from conch_kit.http.asgi import Message, Send
from conch_kit.http.caller_connection import DisconnectAwareProtocol

MAX_HEADERS = 128
LINGER_S = 2.0
"""How long a connection stays half open behind an answer that came before the end of its request."""
LINGER_BYTES = 64 * 1024 * 1024
"""What of that request is read meanwhile."""
_UPGRADE = re.compile(rb"(?<=\r\n)upgrade:[^\r\n]*\r\n", re.IGNORECASE)

_REASONS = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large"}


def guarded(*, header_timeout_s: float, max_header_bytes: int, write_stall_s: float) -> type[DisconnectAwareProtocol]:
    """Return a protocol class with these limits."""

    class Guarded(GuardedProtocol):
        pass

    Guarded.header_timeout_s = header_timeout_s
    Guarded.max_header_bytes = max_header_bytes
    Guarded.write_stall_s = write_stall_s
    return Guarded


class GuardedProtocol(DisconnectAwareProtocol):
    """One client connection whose request heads are bounded."""

    header_timeout_s: float = 10.0
    max_header_bytes: int = 64 * 1024
    write_stall_s: float = 30.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._refused = False
        self._close_delimited = False
        self._linger_timer: asyncio.TimerHandle | None = None
        self._linger_bytes = LINGER_BYTES
        self._unread_timer: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        """Drop the connection with all that waits to be written."""
        self.transport.abort()

    def linger(self) -> None:
        """Let the answer to this request end the connection gently, since the body is not read to its end."""
        self.cycle.transport = _GentleEnd(self.transport, self._linger)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first head."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._disarm()
        for timer in (self._linger_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser unless this connection was refused, and count what it takes for a head without end."""
        if self._refused:
            self._discard(len(data))
            return
        open_before = self._head_timer is not None
        if b"pgrade:" in data and (self.cycle is None or self.cycle.response_complete):
            data = _without_upgrade(data)
        super().data_received(data)
        if open_before and self._head_timer is not None:
            self._head_bytes += len(data)
            self._check_head(self._head_bytes)

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._head_bytes = 0
        if self._head_timer is None:
            self._arm()

    def on_headers_complete(self) -> None:
        """Check the head as a whole, then let the application have the request."""
        self._disarm()
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        if self._refused or not self._check_head(size):
            return
        version = self.parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in self.headers)
        if version not in ("1.0", "1.1"):
            self._refuse(400, "Expected HTTP/1.1.")
        elif hosts > 1 or (hosts == 0 and version == "1.1"):
            self._refuse(400, "Expected exactly one Host header.")
        elif not self.url.startswith(b"/") and self.url != b"*":
            self._refuse(400, "Expected a path as the request target.")
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body on."""
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Pass the end of the body on."""
        if not self._refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, and watch that the client reads the answer to this one.

        All of it may wait in the buffer, and a connection that is closed stays open until that is empty.
        """
        super().on_response_complete()
        self._watch_unread()

    def push(self, data: bytes) -> bool:
        """Write a piece as uvicorn frames it; see `ClientConnection`."""
        if self.flow.write_paused or self.transport.is_closing():
            return False
        if data:
            self.transport.write(data if self._close_delimited else b"%x\r\n%b\r\n" % (len(data), data))
        return True

    def close_delimited(self, send: Send) -> Send:
        """Return a `send` whose answers of unknown length end with the connection; see `ClientConnection`."""

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message.get("headers", ())}
                self._close_delimited = b"content-length" not in names and self.scope["method"] != "HEAD"
                if self._close_delimited:
                    self.cycle.chunked_encoding = False
            elif self._close_delimited:
                if self.flow.write_paused:
                    await self.flow.drain()
                self.transport.write(message.get("body", b""))
                if message.get("more_body", False):
                    return
                message = {"type": message["type"]}
            await send(message)

        return send_on

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP in the one shape of errors."""
        if not self._refused:
            self._refuse(400, msg)

    def _check_head(self, size: int) -> bool:
        if size > self.max_header_bytes:
            self._refuse(431, f"Expected a request head of at most {self.max_header_bytes} bytes.")
        elif len(self.headers or ()) > MAX_HEADERS:
            self._refuse(431, f"Expected at most {MAX_HEADERS} headers.")
        return not self._refused

    def _arm(self) -> None:
        self._head_timer = self.loop.call_later(self.header_timeout_s, self._too_slow)

    def _disarm(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _watch_unread(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        unread = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(self.write_stall_s, self._unread, unread) if unread else None

    def _unread(self, before: int) -> None:
        """Drop a connection of which nothing was read meanwhile, unless an answer is under way, which is watched."""
        self._unread_timer = None
        answering = self.cycle is not None and not self.cycle.response_complete
        if not answering and self.transport.get_write_buffer_size() >= before:
            self.transport.abort()
        elif not answering:
            self._watch_unread()

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self._refuse(408, f"The request's head did not arrive within {self.header_timeout_s:g} s.")

    def _refuse(self, status: int, message: str) -> None:
        """Answer without the application, and close."""
        self._refused = True
        self._disarm()
        kind = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        body = orjson.dumps({"error": kind})
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
        request_id = f"x-request-id: {urandom(16).hex()}\r\n"
        self.transport.write(
            f"{head}{request_id}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
        )
        self._linger()

    def _linger(self) -> None:
        """Say that nothing more comes, and read on for a while: bytes that are left unread reset the connection.

        A client that writes its whole request before it reads would never see the answer.
        """
        self._refused = True
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._linger_timer = self.loop.call_later(LINGER_S, self.transport.close)

    def _discard(self, size: int) -> None:
        self._linger_bytes -= size
        if self._linger_bytes < 0:
            self.transport.close()


class _GentleEnd(asyncio.Transport):
    """A connection as one answer sees it: what closes it is something else than an abrupt end."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        super().__init__()
        self._transport = transport
        self._close = close

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write to the connection."""
        self._transport.write(data)

    def is_closing(self) -> bool:
        """Return whether the connection is closed, or about to be."""
        return self._transport.is_closing()

    def close(self) -> None:
        """End the connection gently."""
        self._close()


def _without_upgrade(data: bytes) -> bytes:
    """Leave out the offer of another protocol, which a server may ignore: the parser would not read on behind it."""
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"", head + b"\r\n")[:-2] + end + rest
