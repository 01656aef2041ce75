"""When a client that was sent away should come again: not before there is hope, and not all in the same second.

Those that were sent away together would else come again together, and find the same lack of room.
"""

import random
from collections.abc import Callable

MOST_S = 60.0
"""Clients obey no longer Retry-After."""
LEAST_SPREAD_S = 3.0
SPREAD = 0.25
"""So much of the estimate is added at most."""
SPREAD_OF_MOST = 0.8


def spread_s(estimate_s: float, chance: Callable[[], float] = random.random) -> float:
    """Return a time from the estimate on, and at most a quarter or 3 s later.

    Where the estimate is longer than clients obey they come too early in any case, so they are spread over the last
    fifth of that minute.
    """
    first = estimate_s if estimate_s < MOST_S else MOST_S * SPREAD_OF_MOST
    last = min(MOST_S, estimate_s + max(LEAST_SPREAD_S, estimate_s * SPREAD))
    return first + (last - first) * chance()
