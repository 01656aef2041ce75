"""Answers that may be given again: one computation for all that ask for the same at once, and Redis for a while.

Only what a model answers in the same way every time comes here, and only where its deployment has a cache. Redis'
absence costs the cache and nothing else.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from conch_contracts.names import CACHE_PREFIX
from conch_kit.errors import InvalidRequest
from conch_kit.redis_client import RedisClient, RegistryError, RegistryUnavailable

log = logging.getLogger(__name__)

MAX_BYTES = 1024 * 1024
"""A larger answer is not kept."""


@dataclass(frozen=True, slots=True)
class Shared:
    """An answer, and whether it was there or on its way already."""

    body: bytes
    hit: bool


class Store(Protocol):
    """Where answers are kept."""

    async def get(self, key: str) -> bytes | None:
        """Return an answer; None when there is none, or none can be had."""
        ...

    async def put(self, key: str, body: bytes, ttl_s: float) -> None:
        """Keep an answer, where that is possible."""
        ...


class RedisStore:
    """Keeps answers in Redis, each with a time to live."""

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis

    async def get(self, key: str) -> bytes | None:
        """Return an answer; None also while Redis is away."""
        try:
            found: bytes | None = await self._redis.execute("GET", CACHE_PREFIX + key)
        except (RegistryUnavailable, RegistryError) as error:
            log.debug("The cache cannot be read.", extra={"error": str(error)})
            return None
        return found

    async def put(self, key: str, body: bytes, ttl_s: float) -> None:
        """Keep an answer; do nothing while Redis is away."""
        try:
            await self._redis.execute("SET", CACHE_PREFIX + key, body, "PX", max(1, round(ttl_s * 1000)))
        except (RegistryUnavailable, RegistryError) as error:
            log.debug("The cache cannot be written.", extra={"error": str(error)})


class NoStore:
    """Keeps nothing."""

    async def get(self, key: str) -> bytes | None:
        """Return None."""
        return None

    async def put(self, key: str, body: bytes, ttl_s: float) -> None:
        """Do nothing."""


class SharedAnswers:
    """All answers of one gateway that may be given again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._flights: dict[str, asyncio.Future[bytes | None]] = {}

    async def get(self, identity: bytes, ttl_s: float, make: Callable[[], Awaitable[bytes]]) -> Shared:
        """Return the answer to a request with this identity; `make` computes it when nobody has.

        Raises what `make` raises. Those that wait for another's share its answer, or that the request is invalid; who
        fails by other causes, such as a time-out of its own, or goes away leaves the work to the next in line.
        """
        key = hashlib.sha256(identity).hexdigest()
        while (flight := self._flights.get(key)) is not None:
            body = await asyncio.shield(flight)
            if body is not None:
                return Shared(body, hit=True)
        flight = self._flights[key] = asyncio.get_running_loop().create_future()
        flight.add_done_callback(_heard)
        try:
            body = await self._store.get(key)
            hit = body is not None
            if body is None:
                body = await make()
            flight.set_result(body)
        except InvalidRequest as error:
            flight.set_exception(error)
            raise
        finally:
            del self._flights[key]
            if not flight.done():
                flight.set_result(None)
        if not hit and len(body) <= MAX_BYTES:
            await self._store.put(key, body, ttl_s)
        return Shared(body, hit)


def _heard(flight: asyncio.Future[bytes | None]) -> None:
    """Look at the error of a flight, so that nobody's waiting for it is no fault."""
    flight.exception()
