"""The service's end of the socket to one child: one request at a time, each with a limit on its time.

A child that does not answer in time is killed here; a child that ends fails the request that it was working on.
`children` decides what happens then.
"""

import asyncio
import fcntl
import struct
import termios
from collections.abc import Callable
from typing import cast

from conch_tokenizer import frames
from conch_tokenizer.bounds import TimeLimits
from conch_tokenizer.errors import ChildHung, ChildLost, Stage
from conch_tokenizer.frames import Frame, FrameReader, Operation, Reply


class ChildConnection(asyncio.Protocol):
    """Exchanges frames with one child."""

    def __init__(self, number: int, kill: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.ready: asyncio.Future[None] = loop.create_future()
        self.lost = asyncio.Event()
        self._kill = kill
        self._frames = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._reply: asyncio.Future[Frame] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._encode_s = 0.0

    async def exchange(self, operation: Operation, payload: bytes, limits: TimeLimits) -> Frame:
        """Send one request and return its reply; raises ChildLost or ChildHung. Cancelling it kills the child."""
        if self._transport is None or self.lost.is_set():
            raise ChildLost(f"child {self.number} is gone")
        self._reply = asyncio.get_running_loop().create_future()
        self._encode_s = limits.encode_s
        self._expect_within(limits.load_s if operation is Operation.LOAD else limits.template_s, Stage.BEGUN)
        self._transport.write(frames.pack(operation, payload))
        try:
            return await self._reply
        except asyncio.CancelledError:
            self.kill()
            raise
        finally:
            self._reply = None
            self._stop_timer()

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
            if frame.kind == Reply.READY:
                if not self.ready.done():
                    self.ready.set_result(None)
            elif frame.kind == Reply.ENCODING:
                self._expect_within(self._encode_s, Stage.ENCODING)
            elif self._reply is not None and not self._reply.done():
                self._reply.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail whatever waits for this child."""
        self.lost.set()
        lost = ChildLost(f"child {self.number} ended")
        if not self.ready.done():
            self.ready.set_exception(lost)
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(lost)

    def _expect_within(self, limit_s: float, stage: Stage) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(limit_s, self._expire, limit_s, stage)

    def _expire(self, limit_s: float, stage: Stage) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ChildHung(limit_s, Stage.UNREAD if self._unread() else stage))
        self.kill()

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
