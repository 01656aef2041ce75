"""The service's end of the socket to one child: one request at a time, each with a limit on its time.

A child that does not answer in time is killed here; a child that ends fails the request that it was working on.
`pool` decides what happens then.
"""

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from typing import cast

from conch_contracts.messages.tokenizer_frames import Operation, ReplyKind
from conch_kit import frames
from conch_kit.frames import Frame, FrameReader
from conch_tokenizer.children.limits import TimeLimits
from conch_tokenizer.children.processor_time import processor_time_s
from conch_tokenizer.children.service_orders import LaneOrder
from conch_tokenizer.errors import ChildError, ChildHung, ChildLost, WorkStage

_LOADS = (Operation.LOAD, Operation.LOAD_FOR_GRAMMARS)

_BUSY_PART = 0.5
"""Of the time that a child has for encoding: one that was computing for so much of it had the time that it needs."""

Ended = Callable[[Frame | ChildError], None]
"""Called once with a request's reply, or with what became of the child instead."""


class ChildConnection(asyncio.Protocol):
    """Sends requests to one child and receives its replies."""

    def __init__(
        self, number: int, kill: Callable[[], None], *, row: int = 0, hand_over: socket.socket | None = None
    ) -> None:
        """Make one; `row` is the child's on the work board, and the socket `hand_over` passes lanes to it."""
        loop = asyncio.get_running_loop()
        self.number = number
        self.row = row
        self.ready: asyncio.Future[None] = loop.create_future()
        self.lost = asyncio.Event()
        self._kill = kill
        self._hand_over = hand_over
        self._frames = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._ended: Ended | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._encode_s = 0.0
        self._picture: int | None = None
        self._pid = 0
        self._computed_s = 0.0
        """How long the child had been computing when it began to encode."""

    async def ask(self, operation: Operation, payload: bytes, limits: TimeLimits) -> Frame:
        """Send one request and return its reply; raises ChildLost or ChildHung. Cancelling it kills the child."""
        outcome: asyncio.Future[Frame | ChildError] = asyncio.get_running_loop().create_future()

        def ended(reply: Frame | ChildError) -> None:
            if not outcome.done():
                outcome.set_result(reply)

        self.begin(operation, payload, limits, ended)
        try:
            reply = await outcome
        except asyncio.CancelledError:
            self.kill()
            raise
        if isinstance(reply, ChildError):
            raise reply
        return reply

    def begin(self, operation: Operation, payload: bytes, limits: TimeLimits, ended: Ended) -> None:
        """Send one request now; `ended` is called from the socket's or a timer's callback. Raises ChildLost."""
        if self._transport is None or self.lost.is_set():
            raise ChildLost(f"child {self.number} is gone")
        self._ended = ended
        self._picture = None
        self._encode_s = limits.encode_s
        self._expect_within(limits.load_s if operation in _LOADS else limits.template_s, WorkStage.BEGUN)
        self._transport.write(frames.pack(operation, payload))

    def take_lane(self, descriptor: int, order: LaneOrder) -> None:
        """Pass a connection to the child, which answers on it from now on; raises ChildLost."""
        if self._hand_over is None or self.lost.is_set():
            raise ChildLost(f"child {self.number} is gone")
        try:
            order.send(self._hand_over, descriptor)
        except OSError as exc:
            raise ChildLost(f"child {self.number} takes no lane") from exc

    def encoding_since(self, computed_s: float, took_s: float) -> WorkStage:
        """Return whether a child was encoding or got no processor, by how long it had been computing at first."""
        busy = processor_time_s(self._pid) - computed_s >= took_s * _BUSY_PART
        return WorkStage.ENCODING if busy else WorkStage.STARVED

    def kill(self) -> None:
        """End the child at once, whatever it does."""
        self.lost.set()  # Before the socket is closed, so that nobody takes it for idle in between.
        self._kill()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Hand complete frames to whoever waits for them."""
        for frame in self._frames.feed(data):
            if frame.kind == ReplyKind.READY:
                self._pid = int(frame.payload)
                if not self.ready.done():
                    self.ready.set_result(None)
            elif frame.kind == ReplyKind.ENCODING:
                self._picture = int(frame.payload) if frame.payload else None
                self._computed_s = processor_time_s(self._pid)
                self._expect_within(self._encode_s, WorkStage.ENCODING)
            else:
                self._end(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail whatever waits for this child."""
        self.lost.set()
        if self._hand_over is not None:
            self._hand_over.close()
        lost = ChildLost(f"child {self.number} ended", self._picture)
        if not self.ready.done():
            self.ready.set_exception(lost)
        self._end(lost)

    def _expect_within(self, limit_s: float, stage: WorkStage) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(limit_s, self._expire, limit_s, stage)

    def _expire(self, limit_s: float, stage: WorkStage) -> None:
        if self._unread():
            stage = WorkStage.UNREAD
        elif stage is WorkStage.ENCODING:
            stage = self.encoding_since(self._computed_s, limit_s)
        hung = ChildHung(limit_s, stage, self._picture)
        ended, self._ended = self._ended, None  # before the end of the child is taken for the outcome
        self.kill()
        if ended is not None:
            ended(hung)

    def _end(self, outcome: Frame | ChildError) -> None:
        self._stop_timer()
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(outcome)

    def _unread(self) -> bool:
        """Tell whether the child has left bytes of its request unread: it is stopped, or starved by others."""
        wire = self._transport.get_extra_info("socket") if self._transport is not None else None
        if wire is None or wire.fileno() < 0:
            return False
        (count,) = struct.unpack("i", fcntl.ioctl(wire.fileno(), termios.TIOCOUTQ, bytes(4)))
        return bool(count)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
