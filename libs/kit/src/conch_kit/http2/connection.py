"""One client connection of HTTP/2: many requests side by side, each a stream of its own.

Made for streams of small messages; with `h2` a request of an engine's client takes twice as long and each message in it
up to three times, the reading of protobuf included. What a stream receives goes to its `Receiver` at once. The
connection's receive window is given back as data comes, so that a stream which nobody reads stops no other one; a
stream's own window is given back by its receiver. What one connection brings is handled a few frames a turn, and what a
server may send without content is bounded (`limits`), so that none keeps the loop from the streams of others.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from conch_kit.http2 import frames
from conch_kit.http2.errors import ProtocolViolation, StreamFailed
from conch_kit.http2.frames import ErrorCode, FrameKind, Setting
from conch_kit.http2.header_blocks import BlockReader, Headers, OpenBlock
from conch_kit.http2.limits import FRAMES_A_TURN, LATE_FRAMES, MAX_SETTINGS, IdleFrames
from conch_kit.http2.outbox import Outbox
from conch_kit.http2.payloads import check_size, unpadded

STREAM_WINDOW_BYTES = 1024 * 1024
"""What the server may send on a stream before its receiver has given something back."""
_CONNECTION_WINDOW_BYTES = 64 * 1024 * 1024
_HELLO = (
    frames.PREFACE
    + frames.settings(
        {
            Setting.HEADER_TABLE_SIZE: 0,
            Setting.ENABLE_PUSH: 0,
            Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
        }
    )
    + frames.window_update(0, _CONNECTION_WINDOW_BYTES - frames.FIRST_WINDOW_BYTES)
)
_LAST_STREAM = 2**30
"""Behind this one a connection is replaced, long before the numbers end."""


class Receiver(Protocol):
    """Who hears of a stream; called from the event loop."""

    def opened(self, stream: int) -> None:
        """Hear that the request leaves now, with this number."""

    def headers(self, headers: Headers) -> None:
        """Take the head of the answer, or its trailers."""

    def data(self, payload: bytes) -> None:
        """Take a piece of the answer's body."""

    def ended(self, error: StreamFailed | None) -> None:
        """Hear, once, that nothing more comes: the answer is whole, or broke for this reason."""


class _Stream:
    __slots__ = ("begun", "may_receive", "padding", "receiver")

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.may_receive = STREAM_WINDOW_BYTES
        self.padding = 0  # received, and not given back yet
        self.begun = False


class Http2Connection(asyncio.Protocol):
    """A connection to one server. When it is not `usable`, new requests need another one; open streams go on."""

    def __init__(self, on_lost: Callable[["Http2Connection"], None]) -> None:
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(self._loop)
        self._idle_frames = IdleFrames(self._loop.time)
        self._transport: asyncio.Transport | None = None
        self._blocks = BlockReader()
        self._streams: dict[int, _Stream] = {}
        self._next = 1
        self._max_streams = frames.LARGEST_STREAM
        self._waiting: deque[tuple[Receiver, bytes, bytes]] = deque()
        self._rest = b""
        self._left = FRAMES_A_TURN
        self._behind = False
        self._block: OpenBlock | None = None
        self._not_given_back = 0
        self.usable = True
        self.greeted = False
        """Whether the server has sent its first word, the settings."""

    @property
    def busy(self) -> bool:
        """Whether a stream is open, or waits to be."""
        return bool(self._streams or self._waiting)

    @property
    def _takes_requests(self) -> bool:
        return len(self._streams) < self._max_streams and not self._outbox.paused

    def open(self, receiver: Receiver, head: bytes, body: bytes) -> None:
        """Send a request, its head as a block; it waits while the server takes no more streams or reads nothing."""
        if not self.usable:
            receiver.ended(StreamFailed("The connection takes no more requests.", ErrorCode.REFUSED_STREAM))
        elif self._waiting or not self._takes_requests:
            self._waiting.append((receiver, head, body))
        else:
            self._start(receiver, head, body)

    def cancel(self, stream: int) -> None:
        """End a stream at once; its receiver hears nothing more."""
        if self._streams.pop(stream, None) is not None:
            self._outbox.forget(stream)
            self._idle_frames.allow(LATE_FRAMES)
            self._outbox.write(frames.rst_stream(stream, ErrorCode.CANCEL))
            self._next_request()

    def withdraw(self, receiver: Receiver) -> None:
        """Forget a request that waits to be sent; its receiver hears nothing more."""
        self._waiting = deque(entry for entry in self._waiting if entry[0] is not receiver)

    def give_back(self, stream: int, size: int) -> None:
        """Let the server send `size` more bytes on a stream."""
        held = self._streams.get(stream)
        if held is not None:
            held.may_receive += size
            try:
                self._outbox.answer(frames.window_update(stream, size))
            except ProtocolViolation as error:
                self._leave(error)

    def close(self, why: str = "The connection was closed.") -> None:
        """Close the connection; what is open breaks."""
        self._end(why, ErrorCode.NO_ERROR)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with this side's settings."""
        self._transport = cast(asyncio.Transport, transport)
        self._outbox.connect(self._transport)
        self._transport.write(_HELLO)

    def connection_lost(self, error: Exception | None) -> None:
        """Break what is open."""
        self._end(f"The connection was lost: {error or 'the server closed it'}.")

    def pause_writing(self) -> None:
        """Hold bodies back."""
        self._outbox.pause()

    def resume_writing(self) -> None:
        """Send them on."""
        self._outbox.resume()
        self._next_request()

    def data_received(self, data: bytes) -> None:
        """Take what came: whole frames now or in the next turns, the beginning of another one with the next piece."""
        buffer = self._rest + data if self._rest else data
        at, size, unpack = 0, len(buffer), frames.HEAD.unpack_from
        try:
            while self._left > 0:
                if size - at < frames.HEAD_BYTES or self._transport is None:
                    break
                high, low, kind, flags, stream = unpack(buffer, at)
                length = high << 8 | low
                if length > frames.FRAME_BYTES:
                    raise ProtocolViolation(f"A frame of {length} bytes is too long.", ErrorCode.FRAME_SIZE_ERROR)
                end = at + frames.HEAD_BYTES + length
                if end > size:
                    break
                payload, at = buffer[at + frames.HEAD_BYTES : end], end
                self._left -= 1
                if kind == FrameKind.DATA and self.greeted and self._block is None:
                    self._data(flags, stream & frames.LARGEST_STREAM, payload)
                else:
                    self._frame(kind, flags, stream & frames.LARGEST_STREAM, payload)
            else:
                self._fall_behind()
        except ProtocolViolation as error:
            self._leave(error)
        else:
            self._rest = buffer[at:]

    def _fall_behind(self) -> None:
        """Handle the rest in the next turn, and read nothing more before: uvloop reads on and on in one turn."""
        if self._transport is not None and not self._behind:
            self._behind = True
            self._transport.pause_reading()
            self._loop.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        self._behind = False
        self._left += FRAMES_A_TURN
        self.data_received(b"")
        if self._transport is not None and not self._behind:
            self._transport.resume_reading()

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if not self.greeted and (kind != FrameKind.SETTINGS or flags & frames.ACK):
            raise ProtocolViolation("It does not speak HTTP/2.")
        if self._block is not None and (kind != FrameKind.CONTINUATION or stream != self._block.stream):
            raise ProtocolViolation("A header block was interrupted.")
        match kind:
            case FrameKind.HEADERS:
                self._headers(flags, self._own(stream), payload)
            case FrameKind.CONTINUATION:
                self._continuation(flags, payload)
            case FrameKind.RST_STREAM:
                self._rst_stream(self._own(stream), payload)
            case FrameKind.SETTINGS:
                self._settings(flags, stream, payload)
            case FrameKind.PUSH_PROMISE:
                raise ProtocolViolation("It pushes, which it may not.")
            case FrameKind.PING:
                self._ping(flags, payload)
            case FrameKind.GOAWAY:
                self._goaway(payload)
            case FrameKind.WINDOW_UPDATE:
                self._window_update(stream, payload)
            case _:
                self._idle_frames.add()

    def _own(self, stream: int) -> int:
        """Return the number of a stream that this side has opened; raise ProtocolViolation for any other."""
        if not stream & 1 or stream >= self._next:
            raise ProtocolViolation(f"It speaks on stream {stream}, which was never opened.")
        return stream

    def _data(self, flags: int, stream: int, payload: bytes) -> None:
        size = len(payload)
        if flags & frames.PADDED:
            payload = unpadded(payload)
        self._not_given_back += size
        if self._not_given_back >= _CONNECTION_WINDOW_BYTES // 2:
            self._outbox.answer(frames.window_update(0, self._not_given_back))
            self._not_given_back = 0
        held = self._streams.get(stream)
        if not payload and (held is None or not flags & frames.END_STREAM):
            self._idle_frames.add()
        if held is None:
            self._own(stream)
            return
        held.may_receive -= size
        if held.may_receive < 0:
            raise ProtocolViolation("It sends more than it may.", ErrorCode.FLOW_CONTROL_ERROR)
        if payload:
            held.receiver.data(payload)
        if size > len(payload):
            held.padding += size - len(payload)
            if held.padding >= STREAM_WINDOW_BYTES // 4:
                self.give_back(stream, held.padding)
                held.padding = 0
        if flags & frames.END_STREAM:
            self._finish(stream, None)

    def _headers(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & frames.PADDED:
            payload = unpadded(payload)
        if flags & frames.PRIORITY:
            payload = payload[5:]
        last = bool(flags & frames.END_STREAM)
        if flags & frames.END_HEADERS:
            self._whole_block(stream, payload, last=last)
        else:
            self._block = OpenBlock(stream, last=last)
            self._block.add(payload)

    def _continuation(self, flags: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise ProtocolViolation("A header block goes on that never began.")
        if block.stream not in self._streams:
            self._idle_frames.add()
        block.add(payload)
        if flags & frames.END_HEADERS:
            self._block = None
            self._whole_block(block.stream, block.whole, last=block.last)

    def _whole_block(self, stream: int, block: bytes, *, last: bool) -> None:
        headers, fields = self._blocks.read(block)
        self._left -= fields
        held = self._streams.get(stream)
        if held is None or (held.begun and not last):  # nobody hears it, or it is only informational
            self._idle_frames.add(1 + fields)
        if held is not None:
            held.begun = True
            held.receiver.headers(headers)
            if last:
                self._finish(stream, None)

    def _rst_stream(self, stream: int, payload: bytes) -> None:
        check_size(payload, 4)
        code = frames.uint32(payload)
        self._finish(stream, StreamFailed(f"The server ended the stream with {frames.name_of(code)}.", code))

    def _settings(self, flags: int, stream: int, payload: bytes) -> None:
        if stream != 0:
            raise ProtocolViolation("It sends settings for a stream.")
        self._idle_frames.add()
        if flags & frames.ACK:
            check_size(payload, 0)
            return
        if len(payload) % frames.SETTING_BYTES:
            raise ProtocolViolation("A frame has a wrong size.", ErrorCode.FRAME_SIZE_ERROR)
        if len(payload) > MAX_SETTINGS * frames.SETTING_BYTES:
            raise ProtocolViolation("A frame has too many settings.", ErrorCode.ENHANCE_YOUR_CALM)
        self.greeted = True
        entries = frames.settings_in(payload)
        self._left -= len(entries)
        for number, value in entries:
            self._setting(number, value)
        self._outbox.answer(frames.frame(FrameKind.SETTINGS, frames.ACK, 0))
        self._next_request()

    def _setting(self, number: int, value: int) -> None:
        match number:
            case Setting.MAX_CONCURRENT_STREAMS:
                self._max_streams = value
            case Setting.INITIAL_WINDOW_SIZE:
                if value > frames.LARGEST_WINDOW_BYTES:
                    raise ProtocolViolation("A window is out of range.", ErrorCode.FLOW_CONTROL_ERROR)
                self._outbox.set_first_window(value)
            case Setting.MAX_FRAME_SIZE:
                if not frames.FRAME_BYTES <= value <= frames.LARGEST_FRAME_BYTES:
                    raise ProtocolViolation("The size of its frames is out of range.")
                self._outbox.set_frame_bytes(value)
            case Setting.ENABLE_PUSH if value:
                raise ProtocolViolation("It means to push, which it may not.")

    def _ping(self, flags: int, payload: bytes) -> None:
        check_size(payload, 8)
        self._idle_frames.add()
        if not flags & frames.ACK:
            self._outbox.answer(frames.frame(FrameKind.PING, frames.ACK, 0, payload))

    def _goaway(self, payload: bytes) -> None:
        if len(payload) < 8:
            raise ProtocolViolation("A frame has a wrong size.", ErrorCode.FRAME_SIZE_ERROR)
        self._idle_frames.add()
        last, code = frames.uint32(payload) & frames.LARGEST_STREAM, frames.uint32(payload, 4)
        words = payload[8:200].decode("utf-8", "replace")
        refused = StreamFailed(
            f"The server goes away and has not begun this: {frames.name_of(code)} {words}".rstrip() + ".",
            ErrorCode.REFUSED_STREAM,
        )
        self.usable = False
        waiting, self._waiting = self._waiting, deque()
        for receiver, _, _ in waiting:
            receiver.ended(refused)
        for stream in [number for number in self._streams if number > last]:
            self._finish(stream, refused)
        self._next_request()

    def _window_update(self, stream: int, payload: bytes) -> None:
        check_size(payload, 4)
        self._outbox.grant(self._own(stream) if stream else 0, frames.uint32(payload) & frames.LARGEST_WINDOW_BYTES)

    def _start(self, receiver: Receiver, head: bytes, body: bytes) -> None:
        stream, self._next = self._next, self._next + 2
        self._streams[stream] = _Stream(receiver)
        self._outbox.request(stream, head, body)
        receiver.opened(stream)
        if self._next > _LAST_STREAM:
            self.usable = False

    def _finish(self, stream: int, error: StreamFailed | None) -> None:
        held = self._streams.pop(stream, None)
        if held is None:
            return
        if self._outbox.forget(stream) and error is None:  # an answer before the whole request was read
            self._outbox.write(frames.rst_stream(stream, ErrorCode.NO_ERROR))
        held.receiver.ended(error)
        self._next_request()

    def _next_request(self) -> None:
        """Send requests that wait, or close a connection that takes no more, behind its last stream."""
        while self._waiting and self._takes_requests:
            self._start(*self._waiting.popleft())
        if not self.usable and not self.busy:
            self._end("The connection was closed.", ErrorCode.NO_ERROR)

    def _leave(self, error: ProtocolViolation) -> None:
        self._end(f"The server broke the protocol: {error}", error.code)

    def _end(self, message: str, code: ErrorCode | None = None) -> None:
        """Break what is open; say why to a server that is still there (`code`)."""
        transport, self._transport = self._transport, None
        self.usable = False
        self._rest = b""
        if transport is not None:
            if code is not None:
                self._outbox.write(frames.goaway(code))
                self._outbox.flush()
            transport.close()
            self._on_lost(self)
        self._outbox.disconnect()
        streams, self._streams = self._streams, {}
        waiting, self._waiting = self._waiting, deque()
        error = StreamFailed(message)
        for receiver in [*(held.receiver for held in streams.values()), *(entry[0] for entry in waiting)]:
            receiver.ended(error)
