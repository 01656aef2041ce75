"""How long to wait before something that failed is tried again, and what is waiting for that."""

import random
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

FORGET_S = 300.0
"""A failure that nobody has repeated for so long is forgotten."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Twice as long each time, up to a limit, and never in step with others who failed at the same moment."""

    first_s: float = 1.0
    longest_s: float = 30.0
    chance: Callable[[], float] = random.random
    """From 0 to 1."""

    def pause_s(self, failures: int) -> float:
        """Return the pause after so many failures in a row: between half of the doubled time and all of it."""
        full_s = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 16))
        return full_s * (0.5 + 0.5 * self.chance())


@dataclass(frozen=True, slots=True)
class _Failed:
    error: Exception
    failures: int
    until_s: float


class Attempts:
    """Remembers what failed, so that it is not tried before its time."""

    def __init__(self, backoff: Backoff = Backoff(), clock: Callable[[], float] = time.monotonic) -> None:
        self._backoff = backoff
        self._clock = clock
        self._failed: dict[Hashable, _Failed] = {}

    def obstacle(self, what: Hashable) -> Exception | None:
        """Return how it failed when its time has not come yet."""
        failed = self._failed.get(what)
        return failed.error if failed is not None and self._clock() < failed.until_s else None

    def failed(self, what: Hashable, error: Exception) -> None:
        """Note that it failed, once more in a row."""
        now = self._clock()
        self._failed = {key: one for key, one in self._failed.items() if now - one.until_s < FORGET_S}
        before = self._failed.get(what)
        failures = 1 if before is None else before.failures + 1
        self._failed[what] = _Failed(error, failures, now + self._backoff.pause_s(failures))

    def succeeded(self, what: Hashable) -> None:
        """Forget that it ever failed."""
        self._failed.pop(what, None)
