"""Notices of a Redis that is played, for what subscribes to one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Notices:
    """A subscription that gives what is put into its queue; mixed into a fake of the client."""

    def __init__(self) -> None:
        super().__init__()
        self.notices: asyncio.Queue[bytes] = asyncio.Queue()

    @asynccontextmanager
    async def pubsub(self, _: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Subscribe to whatever channel."""

        async def told() -> AsyncIterator[bytes]:
            while True:
                yield await self.notices.get()

        yield told()
