"""What somebody would have spent who knows the whole day in advance, and is held to the same rules.

The same rules: engines are filled to the target and start as slowly, none goes within a window after it has come, and
none that is needed again within two fifths of one. The only engine of a model that may rest stays for `idleAfter`,
which its spec says and nobody decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from conch_operator.scaling.decision import LEAST_WINDOW_S, LULL_PART, UP_AFTER_S
from generate.scaling_day.loads import DAY_S, REQUEST_S, Day
from generate.scaling_day.simulation import IDLE_AFTER_S, MOST, SLOTS, START_S, TARGET


@dataclass(frozen=True, slots=True)
class _Rule:
    """When an engine may go."""

    stays_s: int
    """After it was needed last."""
    least_s: int
    """After it has come."""
    gap_s: int
    """It stays where it is needed again so soon."""


_BY_WINDOW = _Rule(0, int(LEAST_WINDOW_S), int(LEAST_WINDOW_S * LULL_PART))
_BY_IDLE_AFTER = _Rule(int(IDLE_AFTER_S), 0, 0)
_SURELY_GOES_S = START_S + int(LEAST_WINDOW_S)
"""It is cheaper to go for so long than to stay, whatever comes then."""


def engine_hours(day: Day, *, keeps_idle_after: bool = True) -> float:
    """Return the engine hours that the day needs; who need not keep `idleAfter` keeps to the window instead."""
    at_once, for_long = _needed(day)
    seconds = 0
    for level in range(1, MOST + 1):
        rests = level == 1 and day.least == 0
        rule = _BY_IDLE_AFTER if rests and keeps_idle_after else _BY_WINDOW
        times = _times(at_once if rests else for_long, level)
        seconds += DAY_S if level <= day.least else _least_seconds(times, rule)
    return seconds / 3600


def _times(needed: Sequence[int], level: int) -> list[tuple[int, int]]:
    """Return from when to when the engine of a level is needed, each time."""
    found: list[tuple[int, int]] = []
    for at, count in enumerate(needed):
        if count < level:
            continue
        if found and found[-1][1] == at:
            found[-1] = found[-1][0], at + 1
        else:
            found.append((at, at + 1))
    return found


def _least_seconds(times: Sequence[tuple[int, int]], rule: _Rule) -> int:
    """Return for how long an engine is there at least that is needed at these times.

    It stays between two of them or goes, whichever makes the whole day cheapest.
    """
    least = [0] * (len(times) + 1)
    """From each of the times to the end of the day."""
    for first in reversed(range(len(times))):
        begin, found = times[first][0] - START_S, []
        for last in range(first, len(times)):
            end = max(times[last][1] + rule.stays_s, begin + rule.least_s)
            later = times[last + 1][0] - START_S if last + 1 < len(times) else None
            if later is None or later - end > rule.gap_s:
                found.append(min(end, DAY_S) - begin + least[last + 1])
            if later is not None and later - end > _SURELY_GOES_S:
                break
        least[first] = min(found)
    return least[0]


def _running(day: Day) -> list[int]:
    """Return how many requests would run in each second if none had to wait."""
    running, total = [], 0
    for at, arrivals in enumerate(day.arrivals):
        total += arrivals - (day.arrivals[at - REQUEST_S] if at >= REQUEST_S else 0)
        running.append(total)
    return running


def _needed(day: Day) -> tuple[list[int], list[int]]:
    """Return how many engines are needed in each second, and how many have been for at least `UP_AFTER_S`.

    Those are what counts, but for the first engine of a model that was at rest.
    """
    at_once = [min(MOST, ceil(count / (SLOTS * TARGET))) for count in _running(day)]
    span = int(UP_AFTER_S)
    return at_once, [min(at_once[max(0, at - span) : at + 1]) for at in range(len(at_once))]
