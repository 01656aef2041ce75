"""What a frame's payload must be."""

from conch_kit.http2.errors import ProtocolViolation
from conch_kit.http2.frames import ErrorCode


def unpadded(payload: bytes) -> bytes:
    """Return the payload of a padded frame without its padding; raise ProtocolViolation when it has less."""
    if not payload or payload[0] >= len(payload):
        raise ProtocolViolation("A frame has more padding than bytes.")
    return payload[1 : len(payload) - payload[0]]


def check_size(payload: bytes, size: int) -> None:
    """Raise ProtocolViolation for any other size."""
    if len(payload) != size:
        raise ProtocolViolation("A frame has a wrong size.", ErrorCode.FRAME_SIZE_ERROR)
