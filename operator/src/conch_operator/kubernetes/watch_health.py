"""Whether watches still tell what happens: what a list shows must have been told by the watch a while later.

A watch whose connection is dead looks like one on which nothing happens. Lists are read anyway, so they are the proof.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from conch_operator.kubernetes.kinds import Object


@dataclass(frozen=True, slots=True)
class _Untold:
    version: str
    since_s: float


class WatchHealth:
    """Compares what watches told with what lists show."""

    def __init__(self, stale_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._stale_s = stale_s
        self._clock = clock
        self._told: dict[str, str] = {}
        self._untold: dict[str, _Untold] = {}

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

    def reset(self) -> None:
        """Forget everything: the watches begin anew."""
        self._told.clear()
        self._untold.clear()

    def alive(self) -> bool:
        """Return whether nothing has been left untold for too long."""
        now = self._clock()
        return all(now - untold.since_s < self._stale_s for untold in self._untold.values())
