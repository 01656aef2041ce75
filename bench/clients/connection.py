"""One keep-alive HTTP/1.1 connection, as cheap as Python can make it: a load client must not be what is measured.

It reads no more of an answer than it must: where it ends, when its first text comes, how many events it brings.
"""

import asyncio
import re
import time
from dataclasses import dataclass
from typing import cast

_FIRST_TEXT = re.compile(rb'"(?:content|text)":\s*"[^"]')
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_KEPT = 4096
"""How much of an answer's end is kept: the frame with the usage."""


@dataclass(slots=True)
class EventTally:
    """Events over all connections of one client."""

    events: int = 0
    reads: int = 0


@dataclass(slots=True)
class Answer:
    """One answer, or the part of it that has come."""

    started: float
    first_text_s: float = 0.0
    status: int = 0
    tail: bytes = b""
    remaining: int | None = None
    """Bytes of a body with a length that have not come; None: chunked, or the head has not come."""


class Connection(asyncio.Protocol):
    """Sends one request at a time and waits for the end of its answer."""

    def __init__(self, tally: EventTally) -> None:
        self._tally = tally
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._done: asyncio.Future[Answer] | None = None
        self._first: asyncio.Future[None] | None = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class, a transport all the same

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        for waiter in (self._done, self._first):
            if waiter is not None and not waiter.done():
                waiter.set_exception(ConnectionResetError("The server closed the connection in the middle."))

    def begin(self, request: bytes) -> Answer:
        """Send a request; `finished` and `first_event` wait for its answer."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._done, self._first = loop.create_future(), loop.create_future()
        self._answer = answer = Answer(time.monotonic())
        self._transport.write(request)
        return answer

    async def finished(self, timeout_s: float) -> Answer:
        """Wait for the end of the answer."""
        assert self._done is not None
        return await asyncio.wait_for(self._done, timeout_s)

    async def first_event(self, timeout_s: float) -> None:
        """Wait for the first event of a streamed answer."""
        assert self._first is not None
        await asyncio.wait_for(self._first, timeout_s)

    def close(self) -> None:
        """Hang up, whatever is under way."""
        for waiter in (self._done, self._first):
            if waiter is not None:
                waiter.cancel()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            return
        if not answer.status:
            self._head(answer, answer.tail + data)
        elif answer.remaining is not None:
            answer.remaining -= len(data)
            answer.tail += data
        else:
            self._chunks(answer, data)
        if answer.remaining == 0 or (answer.remaining is None and answer.tail.endswith(_LAST_CHUNK)):
            self._answer = None
            if self._done is not None and not self._done.done():
                self._done.set_result(answer)

    def _head(self, answer: Answer, data: bytes) -> None:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            answer.tail = data
            return
        answer.status, answer.tail = int(data[9:12]), b""
        head, body = data[:end], data[end + 4 :]
        if length := _LENGTH.search(head):
            answer.remaining = int(length[1]) - len(body)
            answer.tail = body
        elif body:
            self._chunks(answer, body)

    def _chunks(self, answer: Answer, data: bytes) -> None:
        if events := data.count(b"\n\n"):
            self._tally.events += events
            self._tally.reads += 1
            if self._first is not None and not self._first.done():
                self._first.set_result(None)
        answer.tail = tail = (answer.tail + data)[-_KEPT:]
        if not answer.first_text_s and _FIRST_TEXT.search(tail):
            answer.first_text_s = time.monotonic() - answer.started
