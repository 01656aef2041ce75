"""Whether watches still tell what happens.

A watch whose connection is dead looks like one on which nothing happens. Two things tell them apart. Lists are read
anyway: what they show must have been told by the watch a while later. And the API server sends every watch a bookmark
about once a minute: one that has been silent for several minutes, while lists came, is dead, also on a cluster where
nothing changes.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from conch_operator.kubernetes.api.kinds import Object


@dataclass(frozen=True, slots=True)
class _Untold:
    version: str
    since_s: float


class WatchHealth:
    """Compares what watches told with what lists show, and listens to them."""

    def __init__(self, stale_s: float, silence_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._stale_s = stale_s
        self._silence_s = silence_s
        self._clock = clock
        self._told: dict[str, str] = {}
        self._untold: dict[str, _Untold] = {}
        self._heard_at: dict[str, float] = {}
        self._silent_s: dict[str, float] = {}
        """How long watches that are closed had been silent."""

    def opened(self, watch: str) -> None:
        """Note that a watch is being opened; opening it again and again is no proof that it tells anything."""
        self._heard_at.setdefault(watch, self._clock() - self._silent_s.pop(watch, 0.0))

    def closed(self, watch: str) -> None:
        """Note that a watch was closed; one whose namespace was deleted is not opened again."""
        if watch in self._heard_at:
            self._silent_s[watch] = self._clock() - self._heard_at.pop(watch)

    def heard(self, watch: str) -> None:
        """Note that something came out of a watch: an event or a bookmark."""
        self._heard_at[watch] = self._clock()

    def told(self, item: Object) -> None:
        """Note what a watch has told."""
        meta = item["metadata"]
        self._told[meta["uid"]] = meta["resourceVersion"]
        self._untold.pop(meta["uid"], None)

    def listed(self, items: Iterable[Object]) -> None:
        """Note what a complete list shows."""
        now = self._clock()
        versions = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items}
        untold = {}
        for uid, version in versions.items():
            before = self._untold.get(uid)
            if self._told.get(uid) != version:
                untold[uid] = before if before is not None else _Untold(version, now)
        self._untold = untold
        self._told = {uid: version for uid, version in self._told.items() if uid in versions}

    def not_listed(self) -> None:
        """Note that a list has failed: silence is no fault of the watches while the API server does not answer."""
        self._heard_at = dict.fromkeys(self._heard_at, self._clock())
        self._silent_s.clear()

    def ended(self) -> None:
        """Note that all watches have ended; those that are still wanted are opened again."""
        self._heard_at.clear()
        self._silent_s.clear()

    def reset(self) -> None:
        """Forget everything: the watches begin anew."""
        self._told.clear()
        self._untold.clear()
        self.ended()

    def alive(self) -> bool:
        """Return whether nothing has been left untold and no watch has been silent for too long."""
        now = self._clock()
        told = all(now - untold.since_s < self._stale_s for untold in self._untold.values())
        return told and all(now - heard_s < self._silence_s for heard_s in self._heard_at.values())
