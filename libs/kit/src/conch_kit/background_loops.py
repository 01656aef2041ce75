"""Loops that run beside everything else for as long as their owner is in use.

One that fails, which is a fault of the code, is logged with its stack and begins again: what it keeps up to date would
grow old otherwise, and nobody would hear of it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Until a loop that has failed begins again."""

_Loop = Callable[[], Coroutine[Any, Any, None]]


class BackgroundLoops:
    """An async context manager that runs some coroutines until it ends; for classes that consist of such loops."""

    def __init__(self, *loops: _Loop) -> None:
        self._loops = loops
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._running = [asyncio.create_task(_kept_running(loop)) for loop in self._loops]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


async def _kept_running(loop: _Loop) -> None:
    while True:
        try:
            await loop()
        except Exception:  # the end of a task: what else runs hears nothing of it
            log.exception("A loop has failed by a fault of Conch; it begins again.", extra={"loop": loop.__qualname__})
        await asyncio.sleep(AGAIN_S)
