"""How the streams of both completion APIs end."""

from abc import ABC, abstractmethod

from conch_contracts.messages.generation import Usage
from conch_kit.errors import ServiceError

DONE = b"data: [DONE]\n\n"


class ChunkEnds(ABC):
    """Ends a stream: usage where it was asked for, then `[DONE]` unless the answer broke."""

    def __init__(self, *, include_usage: bool) -> None:
        self._include_usage = include_usage

    @abstractmethod
    def usage(self, usage: Usage) -> bytes:
        """Return the frame without choices."""

    def ending(self, usage: Usage) -> bytes:
        """Return the frame without choices where it was asked for, and `[DONE]`."""
        return (self.usage(usage) if self._include_usage else b"") + DONE

    def failure(self, error: ServiceError, usage: Usage) -> bytes:
        """Return the error; no `[DONE]` follows it."""
        return b"data: " + error.body() + b"\n\n"
