"""Calls something every so often while other work goes on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def calling_every(seconds: float, call: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Await `call` every so many seconds while the body runs; what it raises ends the body, and is raised here."""
    failure: BaseException | None = None
    task, body_ended = asyncio.current_task(), False
    try:
        async with asyncio.TaskGroup() as group:
            calls = group.create_task(_repeat(seconds, call))
            yield
            body_ended = True
            calls.cancel()
    except BaseExceptionGroup as failures:
        failure = failures.exceptions[0]
        if body_ended and task is not None:
            task.uncancel()  # up to Python 3.12 a group that fails while its parent waits for it leaves its request
    if failure is not None:
        raise failure  # out here, where it keeps the cause that it has


async def _repeat(seconds: float, call: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        await call()
