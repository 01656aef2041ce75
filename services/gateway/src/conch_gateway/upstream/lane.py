"""One lane: a connection to a tokenizer's child that carries many requests at once, as frames."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, cast

from conch_contracts.headers import INTERNAL_TOKEN, LANE, LANES
from conch_contracts.messages.tokenizer_frames import Operation
from conch_contracts.names import LANE_PATH
from conch_kit.frames import Frame, FrameReader, FrameTooLarge, pack

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_MAX_LANES: Final = 1024
"""More than a tokenizer has children."""
_MAX_DIGITS: Final = 16
_MAX_HEAD_BYTES: Final = 16 * 1024
_LAST_NUMBER: Final = 2**32 - 1
_KEEPALIVE: Final = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3}
"""A peer whose machine has gone says nothing; this finds it while nobody waits for an answer."""


class LaneRefused(Exception):
    """The tokenizer gives no lane."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the answer was {status}")
        self.status = status


class LaneLost(Exception):
    """The lane ended before a request had its answer."""


class Lane(asyncio.Protocol):
    """Sends requests and hands out the answers by number."""

    def __init__(self, host: str, token: str | None, on_lost: Callable[["Lane"], None]) -> None:
        """Make one; `on_lost` is called when it ends, if it was ever open."""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when requests may be sent; LaneRefused or LaneLost where that cannot be."""
        self.number = 0
        """The lane's name at the tokenizer."""
        self.of = 1
        """How many lanes a gateway should have there."""
        self.given_up = False
        self._is_open = False
        self._ask = _request(host, token)
        self._on_lost = on_lost
        self._head = b""
        self._frames = FrameReader(MAX_ANSWER_BYTES)
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._last = 0
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    @property
    def in_flight(self) -> int:
        """How many requests have no answer yet."""
        return len(self._waiting)

    def ask(self, operation: Operation, body: bytes) -> tuple[int, "asyncio.Future[Frame]"]:
        """Send a request; return its number, and what becomes its answer or LaneLost.

        Requests of one turn of the loop go out in one write.
        """
        loop = asyncio.get_running_loop()
        number = self._last = self._last + 1 if self._last < _LAST_NUMBER else 1
        answer = self._waiting[number] = loop.create_future()
        if not self._unsent:
            loop.call_soon(self._send)
        self._unsent.append(pack(operation, body, number))
        return number, answer

    def forget(self, number: int) -> None:
        """Let an answer come for nobody."""
        self._waiting.pop(number, None)

    def give_up(self) -> None:
        """Close because the other side has fallen silent."""
        self.given_up = True
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the lane."""
        self._transport = cast(asyncio.Transport, transport)
        wire = transport.get_extra_info("socket")
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            wire.setsockopt(socket.IPPROTO_TCP, option, value)
        self._transport.write(self._ask)

    def data_received(self, data: bytes) -> None:
        """Hand out the answers that are complete."""
        if not self._is_open:
            data = self._open(data)
        try:
            frames = self._frames.feed(data)
        except FrameTooLarge:
            self.abort()
            return
        for frame in frames:
            answer = self._waiting.pop(frame.number, None)
            if answer is not None and not answer.done():
                answer.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all who wait."""
        if not self.opened.done():
            self.opened.set_exception(LaneLost("the connection broke"))
        elif self._is_open:
            self._on_lost(self)
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(LaneLost("the lane ended"))

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None:
            self._transport.write(b"".join(unsent))

    def _open(self, data: bytes) -> bytes:
        """Read the head of the answer; return what follows it."""
        if self.opened.done():
            return b""  # refused, or waited for by nobody any more
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end:
            if len(head) > _MAX_HEAD_BYTES:
                self._refuse(0)
            return b""
        status, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        code = _number(status.split(" ")[1] if " " in status else "")
        number, of = _number(fields.get(LANE, "")), _number(fields.get(LANES, ""))
        if code != 101 or not (number and 1 <= of <= _MAX_LANES):
            self._refuse(code)
            return b""
        self.number, self.of = number, of
        self._is_open = True
        self.opened.set_result(None)
        return rest

    def _refuse(self, status: int) -> None:
        self.opened.set_exception(LaneRefused(status))
        self.abort()


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < _MAX_DIGITS else 0


def _request(host: str, token: str | None) -> bytes:
    lines = [f"POST {LANE_PATH} HTTP/1.1", f"host: {host}", "content-length: 0"]
    if token is not None:
        lines.append(f"{INTERNAL_TOKEN}: {token}")
    return "\r\n".join([*lines, "", ""]).encode()
