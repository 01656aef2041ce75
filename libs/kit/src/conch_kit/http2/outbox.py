"""What one side of a connection sends: small frames at once, bodies as the other side's windows allow.

Frames of one turn of the event loop leave in one write.
"""

import asyncio

from conch_kit.http2 import frames
from conch_kit.http2.errors import ProtocolViolation
from conch_kit.http2.frames import ErrorCode, FrameKind
from conch_kit.http2.limits import MAX_HELD_ANSWERS


class _Body:
    __slots__ = ("beyond_first", "unsent")

    def __init__(self, unsent: memoryview) -> None:
        self.unsent = unsent
        self.beyond_first = 0
        """What was granted to it, less what was sent of it: its window is the first window and this."""


class Outbox:
    """Writes frames to a transport, which may come and go."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._frames: list[bytes] = []
        self._bodies: dict[int, _Body] = {}
        self._frame_bytes = frames.FRAME_BYTES
        self._first_window = frames.FIRST_WINDOW_BYTES
        self._may_send = frames.FIRST_WINDOW_BYTES
        self.paused = False
        """Whether the peer reads nothing, so that whatever is sent piles up here."""
        self._held_answers = 0
        self._granted = False

    def connect(self, transport: asyncio.Transport) -> None:
        """Write to this transport from now on."""
        self._transport = transport

    def disconnect(self) -> None:
        """Write nothing any more, and forget what was not sent."""
        self._transport = None
        self._bodies.clear()

    def write(self, frame: bytes) -> None:
        """Send a frame that no window bounds."""
        if not self._frames:
            self._loop.call_soon(self.flush)
        self._frames.append(frame)

    def answer(self, frame: bytes) -> None:
        """Send what the peer asked for, or window; raise ProtocolViolation when it goes on and on without reading."""
        if self.paused:
            self._held_answers += 1
            if self._held_answers > MAX_HELD_ANSWERS:
                raise ProtocolViolation("The server goes on without reading the answers.", ErrorCode.ENHANCE_YOUR_CALM)
        self.write(frame)

    def request(self, stream: int, head: bytes, body: bytes) -> None:
        """Send a request: its head now, of its body what the windows allow, the rest later."""
        self.write(frames.frame(FrameKind.HEADERS, frames.END_HEADERS, stream, head))
        size = len(body)
        if size > min(self._may_send, self._first_window, self._frame_bytes):
            self._bodies[stream] = _Body(memoryview(body))
            self._send_bodies()
        else:
            self._may_send -= size
            self.write(frames.frame(FrameKind.DATA, frames.END_STREAM, stream, body))

    def forget(self, stream: int) -> bool:
        """Send no more of a stream's body; return whether there was more."""
        return self._bodies.pop(stream, None) is not None

    def grant(self, stream: int, size: int) -> None:
        """Send `size` more bytes on a stream, or on all (0); raise ProtocolViolation when that is no such number.

        They leave together with what is granted in the same turn: each look at all bodies is work.
        """
        if stream == 0:
            self._may_send = _widened(self._may_send, size)
        elif (body := self._bodies.get(stream)) is not None:
            body.beyond_first = _widened(self._first_window + body.beyond_first, size) - self._first_window
        self._send_soon()

    def set_first_window(self, size: int) -> None:
        """Let new streams send this much, and those that are open so much more or less, at the end of the turn."""
        self._first_window = size
        self._send_soon()

    def set_frame_bytes(self, size: int) -> None:
        """Send frames of up to this size."""
        self._frame_bytes = size

    def pause(self) -> None:
        """Hold bodies back while the peer does not read; no request is to come meanwhile."""
        self.paused = True

    def resume(self) -> None:
        """Send them on."""
        self.paused = False
        self._held_answers = 0
        self._send_bodies()

    def flush(self) -> None:
        """Write now what was collected in this turn."""
        if self._frames and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._frames))
        self._frames.clear()

    def _send_soon(self) -> None:
        if self._bodies and not self._granted:
            self._granted = True
            self._loop.call_soon(self._send_granted)

    def _send_granted(self) -> None:
        self._granted = False
        self._send_bodies()

    def _send_bodies(self) -> None:
        for stream, body in list(self._bodies.items()):
            while not self.paused:
                size = min(len(body.unsent), self._may_send, self._first_window + body.beyond_first, self._frame_bytes)
                if size <= 0:
                    break
                piece, body.unsent = body.unsent[:size], body.unsent[size:]
                self._may_send -= size
                body.beyond_first -= size
                self.write(frames.frame(FrameKind.DATA, 0 if body.unsent else frames.END_STREAM, stream, piece))
                self.flush()
            if not body.unsent:
                del self._bodies[stream]


def _widened(window: int, size: int) -> int:
    if not size or window + size > frames.LARGEST_WINDOW_BYTES:
        raise ProtocolViolation("A window is out of range.", ErrorCode.FLOW_CONTROL_ERROR)
    return window + size
