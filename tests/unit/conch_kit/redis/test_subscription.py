"""A subscription whose connection breaks under a ping: its reader hears of it, and leaving it raises nothing."""

import asyncio
from collections.abc import Sequence

import pytest

from conch_kit.redis.client import Subscription
from conch_kit.redis.errors import RegistryUnavailable


class Broken:
    """A connection that breaks with the first ping."""

    def __init__(self) -> None:
        self.pinged = asyncio.Event()
        self.closed = False

    async def roundtrip(self, commands: Sequence[object]) -> list[object]:
        return []

    async def send(self, commands: Sequence[object]) -> None:
        self.pinged.set()
        raise RegistryUnavailable("the connection broke")

    async def receive(self) -> object:
        await self.pinged.wait()
        raise RegistryUnavailable("the connection broke")

    async def close(self) -> None:
        self.closed = True


async def test_a_ping_that_fails_is_told_by_the_reader_alone() -> None:
    connection = Broken()
    subscription = Subscription(connection, "news", ping_s=0.001, patience_s=60.0)  # type: ignore[arg-type]
    async with asyncio.timeout(60), subscription as messages:
        with pytest.raises(RegistryUnavailable, match="broke"):
            await anext(messages)
    assert connection.closed
