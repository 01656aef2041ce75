"""Caps how many tokens per second each request gets, so that tests and demonstrations see a stream at a known speed."""

from collections.abc import Callable


class TokenRateLimit:
    """Says when the next decoding may run. All requests decode together, so one limit holds for each of them."""

    def __init__(self, tokens_per_second: int, clock: Callable[[], float]) -> None:
        self._period_s = 1 / tokens_per_second if tokens_per_second else 0.0
        self._clock = clock
        self._next = clock()

    def take(self) -> bool:
        """Return whether a decoding may run now, and count it if so."""
        if not self._period_s:
            return True
        now = self._clock()
        if now < self._next:
            return False
        # A late decoding is not made up for, so there are never two in a row.
        self._next = max(self._next + self._period_s, now + self._period_s / 2)
        return True

    def wait_s(self) -> float:
        """Return how long it is until the next decoding may run."""
        return max(0.0, self._next - self._clock()) if self._period_s else 0.0
