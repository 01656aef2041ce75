"""Calls that are needed all: none goes on beside what comes after one of them has failed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """Await the tasks of a group: when one fails, the others are cancelled, and what it has raised is raised here."""
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        failure = failures.exceptions[0]
    if failure is not None:
        raise failure  # out here, where it keeps the cause that it has
