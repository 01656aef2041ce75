"""Pure: how many workers a pool needs for the requests that its workers announce, without flapping.

More come when more have been needed for 10 s, fewer go when fewer have been enough for 5 minutes, and the direction
changes at most once in 5 minutes. Nothing but heartbeats is looked at, so no metrics server is needed.
"""

from collections import deque
from dataclasses import dataclass

UP_AFTER_S = 10.0
DOWN_AFTER_S = 300.0
BETWEEN_REVERSALS_S = 300.0


@dataclass(frozen=True, slots=True)
class WorkerBounds:
    """Between what a pool may scale, and what one worker is for."""

    least: int
    most: int
    requests_per_worker: int


class WorkerScaler:
    """Decides for one pool; knows what was needed lately, and which way it went last."""

    def __init__(self, replicas: int, now_s: float) -> None:
        """Begin with the workers that are there; they count as needed until now."""
        self.replicas = replicas
        self._needed: deque[tuple[float, int]] = deque([(now_s, replicas)])
        self._direction = 0
        self._reversed_at_s: float | None = None

    def decide(self, requests: int, bounds: WorkerBounds, now_s: float) -> int:
        """Return how many workers there should be now."""
        needed = -(-requests // bounds.requests_per_worker)
        self._note(needed, now_s)
        wanted = self.replicas
        if (least := self._least_since(now_s - UP_AFTER_S)) > self.replicas:
            wanted = least
        elif (most := max(count for _, count in self._needed)) < self.replicas:
            wanted = most
        wanted = min(max(wanted, bounds.least), bounds.most)
        self._turn(wanted, bounds, now_s)
        return self.replicas

    def _note(self, needed: int, now_s: float) -> None:
        """Remember what is needed for as long as it matters."""
        self._needed.append((now_s, needed))
        while len(self._needed) > 1 and self._needed[1][0] <= now_s - DOWN_AFTER_S:
            self._needed.popleft()

    def _least_since(self, since_s: float) -> int:
        """Return the least that was needed at any moment since then, the one before it included."""
        least = None
        for at_s, count in reversed(self._needed):
            least = count if least is None else min(least, count)
            if at_s <= since_s:
                break
        return least or 0

    def _turn(self, wanted: int, bounds: WorkerBounds, now_s: float) -> None:
        """Go to the wanted number, unless the direction has changed just now; new bounds are obeyed at once."""
        inside = min(max(self.replicas, bounds.least), bounds.most)
        direction = (wanted > inside) - (wanted < inside)
        if direction and self._direction and direction != self._direction:
            if self._reversed_at_s is not None and now_s - self._reversed_at_s < BETWEEN_REVERSALS_S:
                self.replicas = inside
                return
            self._reversed_at_s = now_s
        self._direction = direction or self._direction
        self.replicas = wanted
