"""Waits for a condition, with a deadline."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Return whether the condition held in time."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True
