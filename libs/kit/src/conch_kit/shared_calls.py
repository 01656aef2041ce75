"""Calls that all who ask for the same share: one that takes long is begun once, however often it is wanted."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class SharedCalls(Generic[Key, Result]):
    """Calls of one sort, at most one for each key."""

    def __init__(self) -> None:
        self._under_way: dict[Key, asyncio.Task[Result]] = {}

    async def run(self, key: Key, call: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return what the call comes to that is under way for a key, or this one; raises what it raises.

        It goes on when those have gone who wait for it.
        """
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(call())
            task.add_done_callback(lambda ended: self._ended(key, ended))
        return await asyncio.shield(task)

    def _ended(self, key: Key, task: asyncio.Task[Result]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may be left
