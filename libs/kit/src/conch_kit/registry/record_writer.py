"""Keeps a record of one's own in Redis for as long as one is there, and takes it out at the end."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.side_by_side import end

_FAREWELLS = 3
"""How often a process that ends tries to remove its record: while it stays, others count on somebody who has gone."""


class RecordWriter(ABC):
    """Writes a record again and again, as an async context manager."""

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def _run(self) -> None:
        """Write until cancelled."""

    @abstractmethod
    def _farewell(self) -> Sequence[Sequence[str]]:
        """Return the commands that remove the record and tell the others."""

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            await end(self._task)
        with suppress(RegistryError):
            for _ in range(_FAREWELLS):
                with suppress(RegistryUnavailable):
                    await self._redis.pipeline(self._farewell())
                    return
