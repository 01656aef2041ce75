"""When the engine beside the agent may end."""

import asyncio
import time
from collections.abc import Callable

from conch_kit.timed_waits import wait_at_most

LONGEST_HOLD_S = 45
"""How long the preStop hook holds a pod's end back when no operator lets it go; below the pod's grace period."""
_LOOK_S = 0.2


class EngineTermination:
    """Holds the engine's end back until it is allowed."""

    def __init__(self, longest_hold_s: float, has_ended: Callable[[], bool] = lambda: False) -> None:
        """`has_ended` tells whether the server has: the kubelet is not to wait then before it starts another."""
        self._longest_hold_s = longest_hold_s
        self._has_ended = has_ended
        self._allowed = asyncio.Event()

    async def wait_until_allowed(self) -> None:
        """Return when the engine may end or has ended, at the latest after the longest hold."""
        ends_at = time.monotonic() + self._longest_hold_s
        while not self._allowed.is_set() and not self._has_ended() and (left_s := ends_at - time.monotonic()) > 0:
            await wait_at_most(self._allowed, min(_LOOK_S, left_s))

    def allow(self) -> None:
        """Let the engine end: no gateway uses it any more."""
        self._allowed.set()

    @property
    def is_allowed(self) -> bool:
        """Return whether the engine may end."""
        return self._allowed.is_set()
