"""What somebody would have spent who knows the whole day in advance, and is held to the same rules.

The same rules: engines are filled to the target, start as slowly, and none goes that is needed again within a window.
"""

from collections.abc import Iterator, Sequence
from math import ceil

from conch_operator.scaling.decision import LEAST_WINDOW_S, UP_AFTER_S
from generate.scaling_day.loads import REQUEST_S, Day
from generate.scaling_day.simulation import MOST, SLOTS, START_S, TARGET

_WINDOW = int(LEAST_WINDOW_S)


def engine_hours(day: Day) -> float:
    """Return the engine hours that the day needs."""
    at_once, for_long = _needed(day)
    seconds = 0
    for level in range(1, MOST + 1):
        needed = at_once if level == 1 and day.least == 0 else for_long
        seconds += sum(end - begin for begin, end in _there(needed, level, level <= day.least))
    return seconds / 3600


def _there(needed: Sequence[int], level: int, always: bool) -> Iterator[tuple[int, int]]:
    """Yield from when to when the engine of a level is there."""
    if always:
        yield 0, len(needed)
        return
    begin = end = -1
    for at, count in enumerate(needed):
        if count < level:
            continue
        if begin < 0:
            begin = at - START_S
        elif at - START_S - end > _WINDOW:
            yield begin, max(end, begin + START_S + _WINDOW)
            begin = at - START_S
        end = at + 1
    if begin >= 0:
        yield begin, min(len(needed), max(end, begin + START_S + _WINDOW))


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
