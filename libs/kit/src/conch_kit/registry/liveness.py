"""Decides which processes of a pool are alive, by the reader's own clock. Pure but for the clock it is given.

A process is dropped when its sequence number has not moved for 6 s, or at once when it removed its own record. While
Redis is unreachable nothing expires, and after its return everybody has the full time again. A record that vanished
together with all others (an emptied Redis) was not removed by its process and expires like one that stands still.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from conch_contracts.names import WorkerUrl
from conch_contracts.records import Heartbeat

EXPIRY_S = 6.0


@dataclass(frozen=True, slots=True)
class _Seen:
    beat: Heartbeat
    moved_at: float


class PoolLiveness:
    """The live processes of one pool."""

    def __init__(self, clock: Callable[[], float], expiry_s: float = EXPIRY_S) -> None:
        self._clock = clock
        self._expiry_s = expiry_s
        self._seen: dict[WorkerUrl, _Seen] = {}
        self._observed_at = clock()
        self._lenient_until = self._observed_at

    def observe(self, beats: Mapping[WorkerUrl, Heartbeat], *, emptied: bool) -> tuple[Heartbeat, ...]:
        """Take what Redis holds now and return who is alive; `emptied`: Redis has lost what it held before."""
        self._observed_at = now = self._clock()
        if emptied:
            self._lenient_until = now + self._expiry_s
        if now >= self._lenient_until:
            self._seen = {url: seen for url, seen in self._seen.items() if url in beats}
        for url, beat in beats.items():
            seen = self._seen.get(url)
            moved_at = seen.moved_at if seen is not None and seen.beat.sequence == beat.sequence else now
            self._seen[url] = _Seen(beat, moved_at)
        return tuple(seen.beat for _, seen in sorted(self._seen.items()) if self._alive(seen))

    def forgive(self) -> None:
        """Give everybody the full time again: Redis could not be read for a while."""
        now = self._clock()
        self._seen = {url: _Seen(seen.beat, now) if self._alive(seen) else seen for url, seen in self._seen.items()}

    def _alive(self, seen: _Seen) -> bool:
        return self._observed_at - seen.moved_at <= self._expiry_s
