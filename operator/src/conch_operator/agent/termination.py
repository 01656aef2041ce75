"""When the engine beside the agent may end, and whether it must be started again."""

import asyncio
import time
from collections.abc import Callable

from conch_kit.timed_waits import wait_at_most

LONGEST_HOLD_S = 45
"""How long the preStop hook holds a pod's end back when no operator lets it go; below the pod's grace period."""
RESTART_REQUEST_S = 20.0
"""How long an engine fails its liveness probe after the operator asked for a restart: until the kubelet has seen it."""


class EngineTermination:
    """Holds the engine's end back until it is allowed, and remembers a request to start the engine again."""

    def __init__(self, longest_hold_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest_hold_s = longest_hold_s
        self._clock = clock
        self._allowed = asyncio.Event()
        self._restart_requested_at: float | None = None

    async def wait_until_allowed(self) -> None:
        """Return when the engine may end: at once when it must restart, at the latest after the longest hold."""
        if not self.must_restart:
            await wait_at_most(self._allowed, self._longest_hold_s)

    def allow(self) -> None:
        """Let the engine end: no gateway uses it any more."""
        self._allowed.set()

    def request_restart(self) -> None:
        """Fail the engine's liveness probe for a while, so that the kubelet starts its container again."""
        self._restart_requested_at = self._clock()

    @property
    def is_allowed(self) -> bool:
        """Return whether the engine may end."""
        return self._allowed.is_set()

    @property
    def must_restart(self) -> bool:
        """Return whether the engine fails its liveness probe because a restart was requested."""
        at = self._restart_requested_at
        return at is not None and self._clock() - at < RESTART_REQUEST_S
