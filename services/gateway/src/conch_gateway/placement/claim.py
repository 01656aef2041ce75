"""What a request asks of an engine, and of the queue in front of it."""

from collections.abc import Callable
from dataclasses import dataclass

from conch_contracts.openai.sampling import BATCH_PRIORITY
from conch_contracts.records import RoutingPolicy
from conch_gateway.placement.holds import Hold


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request asks of an engine."""

    sequences: int = 1
    """How many of its choices are worked on at once."""
    priority: int = 0
    """Of those who wait, the lower goes first."""
    size: int = 0
    """Bytes of its body and of what is ready for the worker, which stay in memory while it waits."""
    max_wait_s: float | None = None
    """How long it waits for an engine at most, where the client says so."""
    hold: Callable[[], Hold] | None = None
    """How it is held while an engine starts; None: it is not."""

    @property
    def wakes(self) -> bool:
        """Tell whether an engine may be started for it."""
        return may_wake(self.priority)

    def patience_s(self, policy: RoutingPolicy) -> float:
        """Return how long it waits for a slot of an engine that there is."""
        return policy.queue_wait_s if self.max_wait_s is None else min(self.max_wait_s, policy.queue_wait_s)


def may_wake(priority: int) -> bool:
    """Tell whether an engine may be started for requests of a priority; for a batch none is."""
    return priority < BATCH_PRIORITY


PLAIN = Claim()
"""Of a request that asks for nothing in particular."""
