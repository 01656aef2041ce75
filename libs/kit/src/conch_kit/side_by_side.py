"""Tasks that run side by side, and end together.

`asyncio.TaskGroup` is for tasks whose failure ends their parent too. A parent that goes on after one is left, up to
Python 3.12, with a request to cancel it that nobody takes back; the next `asyncio.timeout` in it then ends as a
cancellation. What is here leaves nothing behind.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class EndedByItself(Exception):
    """A task was cancelled, and by none of those who may end it."""


@overload
async def together(one: Coroutine[Any, Any, A], two: Coroutine[Any, Any, B], /) -> tuple[A, B]: ...
@overload
async def together(
    one: Coroutine[Any, Any, A], two: Coroutine[Any, Any, B], three: Coroutine[Any, Any, C], /
) -> tuple[A, B, C]: ...
@overload
async def together(*coroutines: Coroutine[Any, Any, A]) -> tuple[A, ...]: ...
async def together(*coroutines: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """Run all and return their results. When one fails the others are cancelled; it is raised when all have ended."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        return tuple(await asyncio.gather(*tasks))
    finally:
        await _end_all(tasks)


async def until_first_ends(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run all until one of them ends, and cancel the others; what has failed is raised when all have ended.

    Raises EndedByItself for one that was cancelled without being asked to from here.
    """
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        first, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end_all(tasks)
    for task in first:
        if task.cancelled():
            raise EndedByItself(f"{task.get_coro()} was cancelled by nobody who may.")
    for task in (*first, *tasks):
        if not task.cancelled():
            task.result()


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end; raises what it raises then.

    Other than with `suppress(CancelledError): await task`, a cancellation of the caller that comes meanwhile counts.
    """
    await _end_all([task])
    if not task.cancelled():
        task.result()


async def _end_all(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
