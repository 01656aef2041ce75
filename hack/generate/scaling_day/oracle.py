"""What somebody would have spent who knows the whole day in advance, and is held to the same rules.

The same rules: engines are filled to the target, start as slowly, and none goes that is needed again within a window.
The only engine of a model that may rest stays for `idleAfter`, which its spec says and nobody decides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from conch_operator.scaling.decision import LEAST_WINDOW_S, UP_AFTER_S
from generate.scaling_day.loads import DAY_S, REQUEST_S, Day
from generate.scaling_day.simulation import IDLE_AFTER_S, MOST, SLOTS, START_S, TARGET

_WINDOW = int(LEAST_WINDOW_S)


@dataclass(frozen=True, slots=True)
class _Rule:
    """When an engine may go."""

    stays_s: int
    """After it was needed last."""
    least_s: int
    """After it has come."""
    gap_s: int
    """So soon it is not needed again."""


_BY_WINDOW = _Rule(0, START_S + _WINDOW, _WINDOW)
_BY_IDLE_AFTER = _Rule(int(IDLE_AFTER_S), 0, 0)


def engine_hours(day: Day, *, keeps_idle_after: bool = True) -> float:
    """Return the engine hours that the day needs; who need not keep `idleAfter` keeps to the window instead."""
    at_once, for_long = _needed(day)
    seconds = 0
    for level in range(1, MOST + 1):
        rests = level == 1 and day.least == 0
        rule = _BY_IDLE_AFTER if rests and keeps_idle_after else _BY_WINDOW
        there = _there(at_once if rests else for_long, level, rule)
        seconds += DAY_S if level <= day.least else sum(end - begin for begin, end in there)
    return seconds / 3600


def _there(needed: Sequence[int], level: int, rule: _Rule) -> Iterator[tuple[int, int]]:
    """Yield from when to when the engine of a level is there."""
    begin = end = -1
    for at, count in enumerate(needed):
        if count < level:
            continue
        if begin < 0:
            begin = at - START_S
        elif at - START_S - end > rule.gap_s:
            yield begin, max(end, begin + rule.least_s)
            begin = at - START_S
        end = at + 1 + rule.stays_s
    if begin >= 0:
        yield begin, min(len(needed), max(end, begin + rule.least_s))


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
