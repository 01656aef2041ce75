"""Who gets the next request: least load among those that may, counted here and reported by them.

`choose` is pure. `InFlight` counts what this gateway has given out; a lease gives its place back on every exit.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from conch_contracts.names import WorkerUrl
from conch_contracts.records import Heartbeat


def choose(loads: Sequence[float], *, start: int = 0) -> int:
    """Return the index of the smallest load; of equal ones the first at or after `start`, so that all get a turn."""
    count = len(loads)
    return min(range(count), key=lambda index: (loads[index], (index - start) % count))


@dataclass(frozen=True, slots=True)
class Lease:
    """One request at a process, counted until the context ends."""

    counts: Counter[str]
    key: str

    def __enter__(self) -> None:
        self.counts[self.key] += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.counts[self.key] -= 1
        if self.counts[self.key] <= 0:
            del self.counts[self.key]


@dataclass(slots=True)
class InFlight:
    """Requests that this gateway has given to each process, and a turn counter."""

    counts: Counter[str] = field(default_factory=Counter)
    turn: int = 0

    def lease(self, key: str) -> Lease:
        """Return a context that counts one request at `key`."""
        return Lease(self.counts, key)

    def pick(
        self,
        pool: Sequence[Heartbeat],
        *,
        without: frozenset[WorkerUrl] = frozenset(),
        at_last: frozenset[WorkerUrl] = frozenset(),
    ) -> WorkerUrl | None:
        """Return the least loaded process that is neither draining nor excluded, else one of `at_last`."""
        candidates = [beat for beat in pool if not beat.draining and beat.url not in without]
        if not candidates and at_last:
            candidates = [beat for beat in pool if not beat.draining and beat.url in at_last]
        if not candidates:
            return None
        if len(candidates) == 1:
            return candidates[0].url
        self.turn += 1
        loads = [float(self.counts[beat.url] + beat.in_flight) for beat in candidates]
        return candidates[choose(loads, start=self.turn % len(candidates))].url
