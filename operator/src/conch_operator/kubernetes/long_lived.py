"""What lives long is left out of garbage collections.

With a thousand models a full collection walks a million objects and stops the process for a fifth of a second, or most
of a second where the processors are full, and a wish waits for that. Nearly all of them live as long as their models,
so what is there after a round is frozen: those collections that come by themselves walk only what is newer. What has
become garbage since is found by a collection of all that is made by choice, now and then.
"""

import gc
import time
from collections.abc import Callable

AGAIN_S = 600.0
"""Between two collections of all."""
QUIET_S = 30.0
"""So long before it all models have been settled: a stop is shortest, and matters least, while nothing goes on."""
PATIENCE_S = 600.0
"""How long one waits for such a moment; then it is done whatever goes on."""


class LongLived:
    """Freezes what is there."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due_at_s = clock()
        self._unsettled_at_s = clock()
        """When a round last found a model that was not settled; at first, the start."""

    def round_ended(self, *, settled: bool) -> None:
        """Freeze what is there, now and then without what is garbage; `settled`: whether all models are."""
        now_s = self._clock()
        if not settled:
            self._unsettled_at_s = now_s
        quiet = now_s >= self._unsettled_at_s + QUIET_S
        if now_s >= self._due_at_s + (0.0 if quiet else PATIENCE_S):
            self._due_at_s = now_s + AGAIN_S
            gc.unfreeze()
            gc.collect()
        gc.freeze()
