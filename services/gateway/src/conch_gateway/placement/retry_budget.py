"""How often requests may be sent again: a share of all requests, so that a fleet in trouble is not asked ever more.

The reserve lets all requests of a process that dies go elsewhere; when everything fails for long, it is used up, and
four of five requests fail with what happened to them first.
"""

from collections.abc import Callable

REQUESTS_PER_RETRY = 5
RESERVE = 100
"""The most retries that are saved up, and what there is at the start."""


class RetryBudget:
    """The retries of one kind in one gateway."""

    def __init__(self, count: Callable[[], None]) -> None:
        """`count` is called for each retry that is granted."""
        self._count = count
        self._earned = RESERVE * REQUESTS_PER_RETRY

    def earn(self) -> None:
        """Note one more request."""
        self._earned = min(RESERVE * REQUESTS_PER_RETRY, self._earned + 1)

    def spend(self) -> bool:
        """Take one retry; return whether there was one."""
        if self._earned < REQUESTS_PER_RETRY:
            return False
        self._earned -= REQUESTS_PER_RETRY
        self._count()
        return True
