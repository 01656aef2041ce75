"""Frames on a stream of bytes: one byte that says what a frame is, a number, the payload's length, the payload.

The number is the sender's own: a reply carries the number of its request, so that many may be under way at once.
"""

import struct
from typing import NamedTuple, Protocol

_HEADER = struct.Struct(">BII")
HEADER_BYTES = _HEADER.size


class Frame(NamedTuple):
    """One request or reply, whole."""

    kind: int
    payload: bytes
    number: int = 0


class FrameTooLarge(Exception):
    """A frame announces a payload beyond the limit."""


class Wire(Protocol):
    """A blocking socket."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Wait for bytes and return how many came; 0 when the other side is gone."""
        ...

    def sendall(self, data: bytes, /) -> None:
        """Send all bytes."""
        ...


def pack(kind: int, payload: bytes = b"", number: int = 0) -> bytes:
    """Return the bytes of one frame; `number` has 32 bits."""
    return _HEADER.pack(kind, number, len(payload)) + payload


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self, max_payload_bytes: int = 2**32 - 1) -> None:
        self._max_payload_bytes = max_payload_bytes
        self._kept = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that these bytes complete; raises FrameTooLarge."""
        source: bytes | bytearray = data
        if self._kept:
            self._kept += data
            source = self._kept
        frames, at, size = [], 0, len(source)
        while size - at >= HEADER_BYTES:
            kind, number, length = _HEADER.unpack_from(source, at)
            if length > self._max_payload_bytes:
                raise FrameTooLarge(f"a frame of {length} bytes, where {self._max_payload_bytes} may come")
            end = at + HEADER_BYTES + length
            if end > size:
                break
            frames.append(Frame(kind, bytes(source[at + HEADER_BYTES : end]), number))
            at = end
        if source is data:
            self._kept += data[at:]
        else:
            del self._kept[:at]
        return frames


def receive(wire: Wire) -> Frame | None:
    """Wait for one frame; None when the other side is gone."""
    header = _receive_exactly(wire, HEADER_BYTES)
    if header is None:
        return None
    kind, number, length = _HEADER.unpack(header)
    payload = _receive_exactly(wire, length)
    return None if payload is None else Frame(kind, payload, number)


def _receive_exactly(wire: Wire, count: int) -> bytes | None:
    data = bytearray(count)
    view, filled = memoryview(data), 0
    while filled < count:
        read = wire.recv_into(view[filled:])
        if read == 0:
            return None
        filled += read
    return bytes(data)
