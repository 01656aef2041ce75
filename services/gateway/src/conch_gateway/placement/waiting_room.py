"""How much memory requests may take that wait: for an engine that starts, or for a free engine, worker or tokenizer.

Their queues have bounds in number. Of prompts with pictures, or of many tokens, few fill the memory of a gateway.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from conch_kit.errors import RateLimited


@dataclass(slots=True)
class WaitingRoom:
    """The room for the bodies and prompts of all requests that wait."""

    limit: int
    """In bytes."""
    size: int = 0

    def taken(self, size: int, waits_for: str, retry_after_s: Callable[[], float], *, part: float = 1.0) -> "TakenRoom":
        """Take room for one request in this part of all, until the context ends.

        Raises RateLimited, which names what it `waits_for` and has a time to come again.
        """
        if self.size + size > self.limit * part:
            raise RateLimited(
                f"Too much waits here for {waits_for}.",
                code="rate_limit_exceeded",
                retry_after_s=retry_after_s(),
            )
        self.size += size
        return TakenRoom(self, size)


@dataclass(frozen=True, slots=True)
class TakenRoom:
    """Room that is taken until the context ends."""

    room: WaitingRoom
    size: int

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.room.size -= self.size
