"""Decides whether Redis is worth asking: open after some failures in a row, closed by the first success. Pure."""


class Breaker:
    """Counts failures in a row."""

    __slots__ = ("_failures", "_threshold")

    def __init__(self, threshold: int = 3) -> None:
        self._threshold = threshold
        self._failures = 0

    @property
    def open(self) -> bool:
        """Whether callers should fail at once."""
        return self._failures >= self._threshold

    def failure(self) -> bool:
        """Count a failure and return whether it opened the breaker."""
        self._failures += 1
        return self._failures == self._threshold

    def success(self) -> bool:
        """Forget all failures and return whether that closed the breaker."""
        was_open = self.open
        self._failures = 0
        return was_open
