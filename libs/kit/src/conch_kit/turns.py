"""Long loops on the event loop that let everybody else have turns."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

Item = TypeVar("Item")
_AT_ONCE = 50


async def in_turns(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Give items one after the other; after every fifty others have a turn."""
    for number, item in enumerate(items, 1):
        yield item
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
