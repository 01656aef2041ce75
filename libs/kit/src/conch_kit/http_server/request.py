"""One request and its answer, as an ASGI application sees them, framed as RFC 9112 has it."""

import asyncio
import logging
import re
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

from conch_kit import anthropic_errors
from conch_kit.errors import RequestTimeout
from conch_kit.http.asgi import ASGIApp, Headers, Message, Scope
from conch_kit.http_server.limits import HIGH_WATER_BYTES

log = logging.getLogger(__name__)

_PHRASES = {status.value: status.phrase for status in HTTPStatus} | {anthropic_errors.OVERLOADED: "Overloaded"}
_STATUS_LINES = {status: f"HTTP/1.1 {status} {phrase}\r\n".encode() for status, phrase in _PHRASES.items()}
_NO_LINE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""What no header may hold: whoever read it on would take it for the end of a line, or worse."""
_WITHOUT_BODY = (204, 304)
_FAILED = b"Internal Server Error"
_JOINED_BYTES = 64 * 1024
"""Up to this size a body is copied behind its head, which is cheaper than another system call."""


class RequestConnection(Protocol):
    """The connection, as far as an answer is written to it."""

    @property
    def write_paused(self) -> bool:
        """Whether too much waits for the caller to read it."""

    async def writable(self) -> None:
        """Wait until that is not so any more, or the connection is lost."""

    def write(self, data: bytes) -> None:
        """Write a piece."""

    def resume_reading(self) -> None:
        """Go on with the body, after it was more than the application had asked for."""

    def answered(self) -> None:
        """Hear that an answer is complete."""

    def close(self) -> None:
        """End the connection behind what is written."""


class Request:
    """One request; `run` has an application answer it."""

    __slots__ = (
        "_bodiless",
        "_body",
        "_chunked",
        "_connection",
        "_delivered",
        "_expects_continue",
        "_head",
        "_left",
        "_size",
        "_too_slow_s",
        "_waiter",
        "begun",
        "body_came_at",
        "body_until",
        "complete",
        "dropped",
        "in_chunks",
        "keeps_alive",
        "received",
        "scope",
    )

    def __init__(
        self, scope: Scope, connection: RequestConnection, *, keeps_alive: bool, expects_continue: bool, in_chunks: bool
    ) -> None:
        self.scope = scope
        self.keeps_alive = keeps_alive
        """Whether another request may come after this one on its connection."""
        self.received = False
        """Whether the whole body has come."""
        self.begun = False
        """Whether the answer has a head; it is written with what comes first of the body."""
        self.complete = False
        """Whether the answer is."""
        self.dropped = False
        """Whether there is nobody left to answer."""
        self.body_came_at = 0.0
        """When some of the body has come, on the server's clock."""
        self.body_until = 0.0
        """Until when the body may take more than the time of others, while it comes on; on the server's clock."""
        self._connection = connection
        self._expects_continue = expects_continue
        self.in_chunks = in_chunks
        """Whether the body has no length but that of its chunks."""
        self._body: list[bytes] = []
        self._size = 0
        self._delivered = False
        """Whether the application has the end of the body."""
        self._too_slow_s: float | None = None
        """How long the body may have taken that did not come."""
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""
        """The answer's, until it is written."""
        self._bodiless = False
        self._chunked = False
        self._left: int | None = None
        """Bytes of the answer that its head has announced and that are still to come; None: it told no length."""

    async def run(self, app: ASGIApp) -> None:
        """Have the application answer, and see to it that the caller is left with a whole answer or none."""
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            log.debug("A request was cut.", extra={"path": self.scope["path"]})
        except Exception:
            log.exception("The application failed.", extra={"path": self.scope["path"]})
        if self.complete or self.dropped:
            return
        if self.begun:
            self._put(b"")
            self._connection.close()
        else:
            self.keeps_alive = False
            await self.send({"type": "http.response.start", "status": 500, "headers": [_length(len(_FAILED))]})
            await self.send({"type": "http.response.body", "body": _FAILED})

    # --- what the caller sends -------------------------------------------------------------------

    def feed(self, piece: bytes) -> bool:
        """Take a piece of the body; False when the application has to take some of it first."""
        self._body.append(piece)
        self._size += len(piece)
        self._wake()
        return not self.full

    @property
    def full(self) -> bool:
        """Whether the application has to take some of the body first."""
        return self._size > HIGH_WATER_BYTES

    def end(self) -> None:
        """Note that the body is whole."""
        self.received = True
        self._wake()

    def more_time_s(self, now: float, silence_s: float) -> float:
        """Return how much longer a body whose time is up may take: none, unless it is allowed to, and comes on."""
        return min(self.body_came_at + silence_s, self.body_until) - now

    def time_out(self, seconds: float) -> None:
        """Note that the body did not come within so long."""
        self._too_slow_s = seconds
        self._wake()

    def drop(self) -> None:
        """Note that the caller has gone."""
        self.dropped = True
        self._body.clear()
        self._wake()

    async def receive(self) -> Message:
        """Return what has come of the body since the last call; wait for some. Raises RequestTimeout."""
        if self._expects_continue:
            self._expects_continue = False
            if not (self.begun or self.dropped or self.received):
                self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while self._delivered or not (self._body or self.received):
            if self.dropped or self.complete:
                return {"type": "http.disconnect"}
            if self._too_slow_s is not None:
                # Made here: an error that this request held would hold it in turn, by its traceback.
                raise RequestTimeout(f"The request body did not arrive within {self._too_slow_s:g} s.", code="timeout")
            self._connection.resume_reading()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.dropped or self.complete:
            return {"type": "http.disconnect"}
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body, self._size, self._delivered = [], 0, self.received
        return {"type": "http.request", "body": body, "more_body": not self.received}

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- what it is answered ---------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        """Write a part of the answer; waits while too much of it is unread."""
        if self._connection.write_paused and not self.dropped:
            await self._connection.writable()
        if self.dropped:
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], message.get("headers", ()))
        else:
            self._write(message.get("body", b""), more=message.get("more_body", False))

    def push(self, data: bytes) -> None:
        """Write a piece of an answer that has begun without a length."""
        if not self._bodiless:
            self._put(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def _begin(self, status: int, headers: Headers) -> None:
        if self.begun:
            raise RuntimeError("Expected one beginning of an answer.")
        lines = [_STATUS_LINES[status], _date_line()]
        closes = False
        for name, value in headers:
            if _NO_LINE.search(value):
                raise RuntimeError(f"Expected a header of one line, found {name!r}: {value[:100]!r}.")
            lines.append(b"%b: %b\r\n" % (name, value))
            if name == b"content-length":
                self._left = int(value)
            elif name == b"connection":
                closes = value.lower() == b"close"
        # The end of a body in chunks is found by work alone, that would be for nobody.
        self.keeps_alive = self.keeps_alive and not closes and (self.received or not self.in_chunks)
        self._bodiless = self.scope["method"] == "HEAD" or status in _WITHOUT_BODY
        if self._left is None and not self._bodiless:
            if self.scope["http_version"] == "1.0":
                self.keeps_alive = False  # such a caller knows no chunks: the connection's end is the answer's
            else:
                self._chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
        if not (self.keeps_alive or closes):
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        self.begun = True
        self._head = b"".join(lines)

    def _write(self, body: bytes, *, more: bool) -> None:
        if not self.begun or self.complete:
            raise RuntimeError("Expected the body of an answer behind its head, and nothing behind its end.")
        if self._bodiless:
            self._put(b"")
        elif self._chunked:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self._put(chunk if more else chunk + b"0\r\n\r\n")
        else:
            self._count(len(body), more=more)
            self._put(body)
        if not more:
            self.complete = True
            self._body.clear()  # the rest comes for nobody
            self._wake()
            self._connection.answered()

    def _put(self, data: bytes) -> None:
        """Write what is framed already, behind the head if that is still here."""
        if self._head:
            head, self._head = self._head, b""
            if len(data) <= _JOINED_BYTES:
                data = head + data
            else:
                self._connection.write(head)
        if data:
            self._connection.write(data)

    def _count(self, size: int, *, more: bool) -> None:
        """Raise for an answer that is longer, or ends earlier, than it said."""
        if self._left is None:
            return
        self._left -= size
        if self._left < 0 or (self._left and not more):
            raise RuntimeError("Expected an answer of the length that its head tells.")


class _DateLine:
    """The header that tells the time, made once a second."""

    second = 0
    line = b""


def _date_line() -> bytes:
    now = int(time.time())
    if now != _DateLine.second:
        _DateLine.second, _DateLine.line = now, f"date: {formatdate(now, usegmt=True)}\r\n".encode()
    return _DateLine.line


def _length(size: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % size
