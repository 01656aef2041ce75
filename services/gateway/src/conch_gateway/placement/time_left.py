"""Time of which a request has only so much, and which it uses in several pieces."""

import time
from collections.abc import Callable
from types import TracebackType


class TimeLeft:
    """So many seconds: what passes in this context counts, entered as often as need be, and what `use` takes off."""

    __slots__ = ("_began", "_clock", "_left_s")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._left_s = seconds
        self._clock = clock
        self._began: float | None = None

    def seconds(self) -> float:
        """Return how much is left now; never less than 0."""
        used_s = 0.0 if self._began is None else self._clock() - self._began
        return max(0.0, self._left_s - used_s)

    def use(self, seconds: float) -> None:
        """Take off what has passed outside of it."""
        self._left_s -= seconds

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left_s = self.seconds()
        self._began = None
