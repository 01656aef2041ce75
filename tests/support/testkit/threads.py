"""Runs something asynchronous beside a test that blocks."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

_START_S = 60.0
_END_S = 60.0

Serve = Callable[[Callable[[], None], asyncio.Event], Awaitable[None]]
"""Calls its first argument when it serves, and serves until its second is set."""


@contextmanager
def in_thread(serve: Serve, name: str) -> Iterator[None]:
    """Run it during the body, on a loop of its own."""
    started = threading.Event()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        stop = asyncio.Event()
        running.append((asyncio.get_running_loop(), stop))
        await serve(started.set, stop)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name=name, daemon=True)
    thread.start()
    try:
        assert started.wait(_START_S), f"{name} did not start."
        yield
    finally:
        for loop, stop in running:
            loop.call_soon_threadsafe(stop.set)
        thread.join(_END_S)
