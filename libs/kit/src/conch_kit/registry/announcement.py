"""A worker's heartbeat: from when it listens until it has gone, marked while it drains."""

from collections.abc import Callable
from contextlib import AsyncExitStack

from conch_contracts.records import Pool
from conch_kit.redis.client import RedisClient
from conch_kit.registry.heartbeat import HeartbeatWriter


class Announcement:
    """Announces a process of a pool; `begin` and `drain` are the callbacks that `service.serve` takes."""

    def __init__(self, redis: RedisClient, pool: Pool, in_flight: Callable[[], int], stack: AsyncExitStack) -> None:
        self._redis = redis
        self._pool = pool
        self._in_flight = in_flight
        self._stack = stack
        self._draining = False
        self._writer: HeartbeatWriter | None = None

    async def begin(self, url: str) -> None:
        """Announce the process under its URL."""
        self._writer = HeartbeatWriter(
            self._redis, self._pool, url, in_flight=self._in_flight, draining=lambda: self._draining
        )
        await self._stack.enter_async_context(self._writer)

    async def drain(self) -> None:
        """Tell gateways at once that nothing new should come."""
        self._draining = True
        if self._writer is not None:
            await self._writer.beat()
