"""Keeps a record of one's own in Redis for as long as one is there, and takes it out at the end."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from conch_kit.background_loops import BackgroundLoops
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable

_FAREWELLS = 3
"""How often a process that ends tries to remove its record: while it stays, others count on somebody who has gone."""


class RecordWriter(BackgroundLoops, ABC):
    """Writes a record again and again, as an async context manager."""

    def __init__(self, redis: RedisClient) -> None:
        super().__init__(self._run)
        self._redis = redis

    @abstractmethod
    async def _run(self) -> None:
        """Write until cancelled."""

    @abstractmethod
    def _farewell(self) -> Sequence[Sequence[str]]:
        """Return the commands that remove the record and tell the others."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, trace)
        with suppress(RegistryError):
            for _ in range(_FAREWELLS):
                with suppress(RegistryUnavailable):
                    await self._redis.pipeline(self._farewell())
                    return
