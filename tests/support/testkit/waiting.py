"""Waits for a condition with a deadline, so that no test sleeps and hopes.

A deadline only ends a test that hangs: machines that test are slow, and stop for a second now and then.
"""

import asyncio
import time
from collections.abc import Callable


async def eventually(condition: Callable[[], object], what: str, timeout_s: float = 30.0) -> float:
    """Return the seconds until the condition held; fail by name when it did not in time."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > timeout_s:
            raise AssertionError(f"Not seen within {timeout_s:g} s: {what}")
        await asyncio.sleep(0.01)
    return time.monotonic() - started


async def eventually_in_thread(condition: Callable[[], object], what: str, timeout_s: float) -> float:
    """Do as `eventually` with a condition that blocks, such as a command, without holding up the event loop."""
    started = time.monotonic()
    while not await asyncio.to_thread(condition):
        if time.monotonic() - started > timeout_s:
            raise AssertionError(f"Not seen within {timeout_s:g} s: {what}")
        await asyncio.sleep(0.5)
    return time.monotonic() - started
