"""What the agent knows about the end of the engine beside it: whether it may end, and whether it must."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

LONGEST_HOLD_S = 45
"""How long a pod's end is held back for the gateways when nobody lets it go; below the pod's own grace period."""
CONDEMNED_S = 20.0
"""How long an engine counts as dead after the operator said so: until the kubelet has asked often enough."""


class Hold:
    """Holds the engine's end until it is let go, and lets it be ended when it is condemned."""

    def __init__(self, longest_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest_s = longest_s
        self._clock = clock
        self._released = asyncio.Event()
        self._condemned_at: float | None = None

    async def wait(self) -> None:
        """Return when the engine may end; at the latest after the longest hold."""
        if not self.condemned:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._released.wait(), self._longest_s)

    def release(self) -> None:
        """Let the engine end: no gateway uses it any more."""
        self._released.set()

    def condemn(self) -> None:
        """Say that the engine does not answer any more, so that its container is started again."""
        self._condemned_at = self._clock()

    @property
    def condemned(self) -> bool:
        """Return whether the engine counts as dead."""
        return self._condemned_at is not None and self._clock() - self._condemned_at < CONDEMNED_S
