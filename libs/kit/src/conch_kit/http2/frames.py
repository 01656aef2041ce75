"""HTTP/2 frames as bytes: their numbers (RFC 9113, sections 6, 7 and 11), and those that a client writes."""

import struct
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = struct.Struct(">HBBBL")
"""A frame's head: the length's upper 16 bits and its lower 8, the kind, the flags, the stream."""
HEAD_BYTES = HEAD.size
FRAME_BYTES = 16_384
"""The most that a frame carries unless its receiver allows more; this client never does."""
LARGEST_FRAME_BYTES = 2**24 - 1
FIRST_WINDOW_BYTES = 65_535
"""What a new stream, and the connection, may send before the other side has said anything."""
LARGEST_WINDOW_BYTES = 2**31 - 1
LARGEST_STREAM = 2**31 - 1

_UINT32 = struct.Struct(">L")
_SETTING = struct.Struct(">HL")
SETTING_BYTES = _SETTING.size


class FrameKind(IntEnum):
    """What a frame is; others are skipped."""

    DATA = 0x0
    HEADERS = 0x1
    RST_STREAM = 0x3
    SETTINGS = 0x4
    PUSH_PROMISE = 0x5
    PING = 0x6
    GOAWAY = 0x7
    WINDOW_UPDATE = 0x8
    CONTINUATION = 0x9


END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY = 0x20


class Setting(IntEnum):
    """What one side tells the other about itself."""

    HEADER_TABLE_SIZE = 0x1
    ENABLE_PUSH = 0x2
    MAX_CONCURRENT_STREAMS = 0x3
    INITIAL_WINDOW_SIZE = 0x4
    MAX_FRAME_SIZE = 0x5


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


def name_of(code: int) -> str:
    """Return an error code's name, or its number when it has none."""
    return ErrorCode(code).name if code in set(ErrorCode) else str(code)


def frame(kind: FrameKind, flags: int, stream: int, payload: bytes | memoryview = b"") -> bytes:
    """Return one frame."""
    size = len(payload)
    return HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def settings(values: dict[Setting, int]) -> bytes:
    """Return a SETTINGS frame."""
    return frame(FrameKind.SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in values.items()))


def settings_in(payload: bytes) -> list[tuple[int, int]]:
    """Return the numbers and values of a SETTINGS frame, whose length is a multiple of `SETTING_BYTES`."""
    return list(_SETTING.iter_unpack(payload))


def window_update(stream: int, size: int) -> bytes:
    """Return the frame that lets the other side send `size` more bytes: on a stream, or on all (0)."""
    return frame(FrameKind.WINDOW_UPDATE, 0, stream, _UINT32.pack(size))


def rst_stream(stream: int, code: ErrorCode) -> bytes:
    """Return the frame that ends a stream at once."""
    return frame(FrameKind.RST_STREAM, 0, stream, _UINT32.pack(code))


def goaway(code: ErrorCode) -> bytes:
    """Return the frame that ends the connection; this side has seen no stream of the other's (0)."""
    return frame(FrameKind.GOAWAY, 0, 0, _UINT32.pack(0) + _UINT32.pack(code))


def uint32(payload: bytes, at: int = 0) -> int:
    """Return the number at a place."""
    (number,) = _UINT32.unpack_from(payload, at)
    return int(number)
