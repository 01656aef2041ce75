"""What a decoding child writes: frames of `conch_kit.frames`, each of one of these kinds."""

from enum import IntEnum

from conch_contracts.messages.message import Message


class ChildFrame(IntEnum):
    """What a frame holds."""

    SAMPLES = 1
    """Mono at 16 kHz, 16 bits each, the lowest byte first."""
    END = 2
    """Nothing: the file is decoded."""
    REFUSAL = 3
    """A `FileRefusal` as JSON, instead of all that would follow."""


class FileRefusal(Message, frozen=True, kw_only=True):
    """Why a file is not taken, in the client's words."""

    code: str
    message: str


class DecodingLimits(Message, frozen=True, kw_only=True):
    """What one file may be, and what decoding it may take."""

    max_audio_s: float
    memory_bytes: int
    cpu_s: int
    silence_s: float
    """How long a child may write nothing while it is waited for."""
