"""How much memory requests may take that wait: those that an engine starts for, or those that wait for a free one.

A queue has a bound in number. Of prompts with pictures, or of many tokens, few fill the memory of a gateway.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from conch_kit.errors import RateLimited


@dataclass(slots=True)
class WaitingRoom:
    """The room for the bodies and prompts of all requests that wait for the same thing."""

    limit: int
    """In bytes."""
    engines: str
    """What they wait for, as a refusal names it."""
    size: int = 0

    @contextmanager
    def taken(self, size: int, retry_after_s: Callable[[], float], *, part: float = 1.0) -> Iterator[None]:
        """Give room for one request in this part of all; raises RateLimited, with a time to come again."""
        if self.size + size > self.limit * part:
            raise RateLimited(
                f"Too much waits here for engines that {self.engines}.",
                code="rate_limit_exceeded",
                retry_after_s=retry_after_s(),
            )
        self.size += size
        try:
            yield
        finally:
            self.size -= size
