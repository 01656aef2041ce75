"""When the engine beside the agent may end."""

import asyncio

from conch_kit.timed_waits import wait_at_most

LONGEST_HOLD_S = 45
"""How long the preStop hook holds a pod's end back when no operator lets it go; below the pod's grace period."""


class EngineTermination:
    """Holds the engine's end back until it is allowed."""

    def __init__(self, longest_hold_s: float) -> None:
        self._longest_hold_s = longest_hold_s
        self._allowed = asyncio.Event()

    async def wait_until_allowed(self) -> None:
        """Return when the engine may end, at the latest after the longest hold."""
        await wait_at_most(self._allowed, self._longest_hold_s)

    def allow(self) -> None:
        """Let the engine end: no gateway uses it any more."""
        self._allowed.set()

    @property
    def is_allowed(self) -> bool:
        """Return whether the engine may end."""
        return self._allowed.is_set()
