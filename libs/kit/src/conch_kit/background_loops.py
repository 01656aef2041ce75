"""Loops that run beside everything else for as long as their owner is in use."""

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self


class BackgroundLoops:
    """An async context manager that runs some coroutines until it ends; for classes that consist of such loops."""

    def __init__(self, *loops: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._loops = loops
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._running = [asyncio.create_task(loop()) for loop in self._loops]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
