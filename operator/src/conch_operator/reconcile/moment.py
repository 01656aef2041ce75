"""How long a round waits for others that need none: a moment."""

import asyncio
from collections.abc import Callable

MOMENT_S = 0.3
LOOK_S = 0.01
"""How often it is looked whether they are done."""


class Moment:
    """A time to wait for others, however often it is waited."""

    def __init__(self) -> None:
        self._looks_left = round(MOMENT_S / LOOK_S)

    async def wait_while(self, others_work: Callable[[], bool]) -> None:
        """Wait until they are done or nothing is left of the moment."""
        while self._looks_left > 0 and others_work():
            self._looks_left -= 1
            await asyncio.sleep(LOOK_S)
