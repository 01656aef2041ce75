"""Four kinds of days: how many requests come in each second."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

DAY_S = 86_400
HOUR_S = 3600
REQUEST_S = 8
"""How long each request takes."""


@dataclass(frozen=True, slots=True)
class Day:
    """One day of one model."""

    name: str
    arrivals: Sequence[int]
    """In each second."""
    least: int = 1
    """Its minReplicas."""


def _busy(hour: float) -> float:
    """Return how many requests a day curve has running: few at night, most in the afternoon."""
    return 4 + 56 * max(0.0, math.sin(math.pi * (hour - 6) / 16)) ** 1.5 if 6 <= hour <= 22 else 4


def _bursts(hour: float) -> float:
    return 55 if (hour * 60) % 47 < 4 else 5


def _steps(hour: float) -> float:
    for end, running in ((6, 6), (9, 30), (12, 80), (13, 40), (18, 70), (24, 10)):
        if hour < end:
            return running
    return 0


def _sparse(hour: float) -> float:
    """Return a request every quarter of an hour or so, and half of that at night."""
    return REQUEST_S / (900 if 8 <= hour < 20 else 1800)


def _day(name: str, running: Callable[[float], float], least: int = 1) -> Day:
    """Return a day with requests that come by chance, always the same."""
    chance = random.Random(name)
    return Day(name, [_poisson(chance, running(t / HOUR_S) / REQUEST_S) for t in range(DAY_S)], least)


def _poisson(chance: random.Random, mean: float) -> int:
    limit, product, count = math.exp(-mean), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count


def days() -> tuple[Day, ...]:
    """Return all four."""
    return (_day("curve", _busy), _day("bursts", _bursts), _day("steps", _steps), _day("sparse", _sparse, 0))


def shown() -> Day:
    """Return the day that the picture shows: nothing at night, a curve by day, and a burst at noon."""
    return _day("shown", lambda hour: 0 if not 6.5 <= hour <= 21.5 else _busy(hour) + 40 * (12 <= hour < 12.2), 0)
