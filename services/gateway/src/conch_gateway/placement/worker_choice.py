"""Who gets the next request: least load among those that may, counted here and reported by them.

`choose` is pure. `WorkerBalancer` counts what this gateway has given out; a lease gives its place back on every exit. A
process that is dead has the least load of all until its heartbeat expires, so one that takes no connection is passed
over for a while.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from conch_contracts.names import WorkerUrl
from conch_contracts.records import Heartbeat

PASSED_OVER_S = 2.0
"""How long a process that took no connection is asked only when there is nobody else: the time of one heartbeat."""


def choose(loads: Sequence[float], *, start: int = 0) -> int:
    """Return the index of the smallest load; of equal ones the first at or after `start`, so that all get a turn."""
    count = len(loads)
    return min(range(count), key=lambda index: (loads[index], (index - start) % count))


def running(pool: Sequence[Heartbeat]) -> list[Heartbeat]:
    """Return the processes that take requests: those that do not drain."""
    return [beat for beat in pool if not beat.draining]


def askable(
    pool: Sequence[Heartbeat], *, without: frozenset[WorkerUrl], at_last: frozenset[WorkerUrl]
) -> list[Heartbeat]:
    """Return the processes that are neither draining nor excluded, else those of `at_last` that are not draining."""
    there = running(pool)
    return [beat for beat in there if beat.url not in without] or [beat for beat in there if beat.url in at_last]


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
class WorkerBalancer:
    """Requests that this gateway has given to each process, a turn counter, and who took no connection until when."""

    counts: Counter[str] = field(default_factory=Counter)
    turn: int = 0
    clock: Callable[[], float] = time.monotonic
    _absent: dict[WorkerUrl, float] = field(default_factory=dict)

    def lease(self, key: str) -> Lease:
        """Return a context that counts one request at `key`."""
        return Lease(self.counts, key)

    def pass_over(self, url: WorkerUrl) -> None:
        """Note that a process took no connection."""
        now = self.clock()
        self._absent = {known: until for known, until in self._absent.items() if until > now}
        self._absent[url] = now + PASSED_OVER_S

    def pick(
        self,
        pool: Sequence[Heartbeat],
        *,
        without: frozenset[WorkerUrl] = frozenset(),
        at_last: frozenset[WorkerUrl] = frozenset(),
    ) -> WorkerUrl | None:
        """Return the least loaded process that is neither draining nor excluded, else one of `at_last`."""
        candidates = askable(pool, without=without, at_last=at_last)
        if not candidates:
            return None
        if self._absent and len(candidates) > 1:
            now = self.clock()
            candidates = [beat for beat in candidates if self._absent.get(beat.url, 0.0) <= now] or candidates
        if len(candidates) == 1:
            return candidates[0].url
        self.turn += 1
        loads = [float(self.counts[beat.url] + beat.in_flight) for beat in candidates]
        return candidates[choose(loads, start=self.turn % len(candidates))].url
