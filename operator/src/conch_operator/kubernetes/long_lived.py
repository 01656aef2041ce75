"""What lives long is left out of garbage collections.

With a thousand models a full collection walks a million objects and stops the process for a fifth of a second, and a
wish waits for that. Nearly all of them live as long as their models. So once all is settled they are collected once, by
choice, and frozen: those collections that come by themselves walk only what is new. While many models come, what is
there is frozen as it is, again and again: walking what grows took a tenth of the operator's time.
"""

import gc
import time
from collections.abc import Callable

GROWTH, FEW = 1.05, 10
"""More than so many times as many models, and so many besides, are many more."""
AGAIN_S = 600.0
"""Between two of them; what has become garbage since is found by the next one."""


class LongLived:
    """Freezes what is there."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_at_s = clock()
        self._models = 0
        """How many there were when all was last frozen."""

    def counted(self, models: int) -> None:
        """Freeze what is there, garbage included, where many models have come since."""
        if models > self._models * GROWTH + FEW:
            self._models = models
            gc.freeze()

    def settled(self) -> None:
        """Note that all models are settled: a moment in which a short stop matters least."""
        if self._clock() < self._next_at_s:
            return
        self._next_at_s = self._clock() + AGAIN_S
        gc.unfreeze()
        gc.collect()
        gc.freeze()
