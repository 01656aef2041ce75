"""Takes several paths in turns, so that other work on the machine meets each of them."""

import time
from collections.abc import Awaitable, Callable, Mapping
from statistics import median

Path = Callable[[], Awaitable[None]]


async def medians(turn: Callable[[], Mapping[str, Path]], count: int, *, warm_up: int) -> dict[str, float]:
    """Return the median milliseconds of each path, by its name, over so many turns behind those that warm up.

    `turn` gives the paths of the next turn, each of which is taken once, in order.
    """
    took: dict[str, list[float]] = {}
    for number in range(count + warm_up):
        for name, path in turn().items():
            began = time.perf_counter()
            await path()
            if number >= warm_up:
                took.setdefault(name, []).append((time.perf_counter() - began) * 1e3)
    return {name: median(values) for name, values in took.items()}
