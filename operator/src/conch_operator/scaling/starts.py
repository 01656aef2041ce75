"""Pure: how long engines of a model take to start, as measured."""

from collections import deque
from collections.abc import Iterable

GUESS_S = 30.0
"""Until a start has been measured."""
_KEPT = 20


class StartTimes:
    """The last starts of one model's engines."""

    def __init__(self, known_s: Iterable[float] = ()) -> None:
        self._seconds: deque[float] = deque(known_s, maxlen=_KEPT)

    def note(self, seconds: float) -> None:
        """Add a start."""
        self._seconds.append(seconds)

    @property
    def measured_s(self) -> float | None:
        """Return the median; None while none was measured."""
        return self._at(0.5) if self._seconds else None

    @property
    def usual_s(self) -> float:
        """Return the median, or a guess."""
        return self._at(0.5)

    @property
    def slow_s(self) -> float:
        """Return what nine of ten starts stay below, or a guess."""
        return self._at(0.9)

    def _at(self, part: float) -> float:
        ordered = sorted(self._seconds) or [GUESS_S]
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
