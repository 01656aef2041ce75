"""What the service and its children send each other over a socket, and how it is framed.

A frame is one byte that names it, the payload's length, and the payload. Requests travel as the bytes that arrived over
HTTP and answers as the bytes that go out, so that the service itself never parses a prompt. Each request gets one final
reply; ENCODING may come before it, when the template has done its part.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

_HEADER = struct.Struct(">BI")
HEADER_BYTES = _HEADER.size


class Operation(IntEnum):
    """What a child is asked to do; the payload is the JSON message of that name, but for the two that load."""

    PREPARE = 1
    TOKENIZE = 2
    DETOKENIZE = 3
    LOAD = 4
    """The payload is a digest and the folder that holds its files, see `load_payload`."""
    PREPARE_ROWS = 5
    CHECK_GRAMMAR = 6
    LOAD_FOR_GRAMMARS = 7
    """As LOAD, for a child that only checks grammars."""


class ReplyKind(IntEnum):
    """What a child sends."""

    READY = 64
    """Once, when it has started; the payload is its process id."""
    DONE = 65
    """The JSON answer; empty after LOAD."""
    REFUSED = 66
    """JSON with message, param and code: the request cannot be served as it is."""
    MISSING = 67
    """The digest that must be loaded before this request can be served."""
    ENCODING = 68
    """Rendering is over and a long text is being encoded: the clock starts again."""
    UNREADABLE = 69
    """LOAD failed; the payload says why."""
    FAILED = 70
    """A fault of ours, logged by the child with its stack."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One reply or request, whole."""

    kind: int
    payload: bytes


class Wire(Protocol):
    """The blocking socket that a child has."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Wait for bytes and return how many came; 0 when the other side is gone."""
        ...

    def sendall(self, data: bytes, /) -> None:
        """Send all bytes."""
        ...


def pack(kind: int, payload: bytes = b"") -> bytes:
    """Return the bytes of one frame."""
    return _HEADER.pack(kind, len(payload)) + payload


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that these bytes complete."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= HEADER_BYTES:
            kind, length = _HEADER.unpack_from(self._buffer)
            end = HEADER_BYTES + length
            if len(self._buffer) < end:
                break
            frames.append(Frame(kind, bytes(self._buffer[HEADER_BYTES:end])))
            del self._buffer[:end]
        return frames


def receive(wire: Wire) -> Frame | None:
    """Wait for one frame; None when the other side is gone."""
    header = _receive_exactly(wire, HEADER_BYTES)
    if header is None:
        return None
    kind, length = _HEADER.unpack(header)
    payload = _receive_exactly(wire, length)
    return None if payload is None else Frame(kind, payload)


def load_payload(digest: str, folder: str) -> bytes:
    """Return the payload of LOAD."""
    return f"{digest} {folder}".encode()


def parse_load_payload(payload: bytes) -> tuple[str, str]:
    """Return digest and folder of LOAD."""
    digest, _, folder = payload.decode().partition(" ")
    return digest, folder


def _receive_exactly(wire: Wire, count: int) -> bytes | None:
    data = bytearray(count)
    view, filled = memoryview(data), 0
    while filled < count:
        read = wire.recv_into(view[filled:])
        if read == 0:
            return None
        filled += read
    return bytes(data)
