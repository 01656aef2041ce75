"""Answers that may be given again: one computation for all that ask for the same at once, and Redis for a while.

How long a request waits for an engine stays its own: it waits no longer for somebody else's computation to begin, nor
for one that is less urgent. While an engine starts each request waits for itself, since it may wake the model or not.

Only what a model answers in the same way every time comes here, and only where its deployment has a cache. Redis'
absence costs the cache and nothing else, and what somebody else has written there is no answer.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from conch_contracts.names import CACHE_PREFIX
from conch_gateway.placement.time_left import TimeLeft
from conch_kit.errors import InvalidRequest, ServiceError
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable

log = logging.getLogger(__name__)

MAX_BYTES = 1024 * 1024
"""A larger answer is not kept."""
PATIENCE_S = 0.1
"""How long Redis may take, and a connection to it become free; computing an answer takes little longer."""
_SEAL_BYTES = 16


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
    """Keeps answers in Redis, each with a time to live, behind a seal that tells whose answer it is and all of it."""

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis

    async def get(self, key: str) -> bytes | None:
        """Return an answer; None also while Redis is away, and for a value whose seal is wrong."""
        try:
            found: bytes | None = await self._redis.execute("GET", CACHE_PREFIX + key, timeout_s=PATIENCE_S)
        except (RegistryUnavailable, RegistryError) as error:
            log.debug("The cache cannot be read.", extra={"error": str(error)})
            return None
        if found is None:
            return None
        body = found[_SEAL_BYTES:]
        if found[:_SEAL_BYTES] != _seal(key, body):
            log.warning("A value in the cache is not what was written there.", extra={"key": CACHE_PREFIX + key})
            return None
        return body

    async def put(self, key: str, body: bytes, ttl_s: float) -> None:
        """Keep an answer; do nothing while Redis is away."""
        try:
            lasting = ("PX", max(1, round(ttl_s * 1000)))
            await self._redis.execute(
                "SET", CACHE_PREFIX + key, _seal(key, body) + body, *lasting, timeout_s=PATIENCE_S
            )
        except (RegistryUnavailable, RegistryError) as error:
            log.debug("The cache cannot be written.", extra={"error": str(error)})


def _seal(key: str, body: bytes) -> bytes:
    seal = hashlib.blake2b(key.encode(), digest_size=_SEAL_BYTES)
    seal.update(body)
    return seal.digest()


class NoStore:
    """Keeps nothing."""

    async def get(self, key: str) -> bytes | None:
        """Return None."""
        return None

    async def put(self, key: str, body: bytes, ttl_s: float) -> None:
        """Do nothing."""


class Computation:
    """An answer on its way."""

    __slots__ = ("_begun", "_body", "_error", "_news", "ended", "may_be_kept", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        """Of the request that waits for an engine for it."""
        self.may_be_kept = True
        """Whether Redis may keep it."""
        self.ended = False
        self._body: bytes | None = None
        """The answer; None at the end: whoever waits has to compute it."""
        self._error: InvalidRequest | None = None
        """What is wrong with the request of all."""
        self._begun = False
        """Whether an engine works on it."""
        self._news = asyncio.Event()
        """Set, and replaced, when that has changed or it has ended."""

    def begins(self, *, may_be_kept: bool) -> None:
        """Note that an engine works on it now."""
        self._begun, self.may_be_kept = True, may_be_kept
        self._tell()

    def waits_again(self) -> None:
        """Note that no engine works on it any more."""
        self._begun = False
        self._tell()

    def ends(self, body: bytes | None = None, error: InvalidRequest | None = None) -> None:
        """Give the answer or the error to those who wait, or, without one, leave it to them; the first word stands."""
        if not self.ended:
            self.ended, self._body, self._error = True, body, error
            self._tell()

    async def shared(self, wait: TimeLeft, priority: int) -> bytes | None:
        """Return the answer; None for a request that has to compute it, is more urgent, or has waited long enough.

        Raises InvalidRequest. Time counts while no engine works on it.
        """
        while not self.ended:
            if self._begun:
                await self._news.wait()
            elif priority < self.priority:
                return None
            else:
                try:
                    with wait:
                        async with asyncio.timeout(wait.seconds()):
                            await self._news.wait()
                except TimeoutError:
                    return None
        if self._error is not None:
            raise self._error.with_traceback(None)  # else it would grow with each that waits
        return self._body

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


class SharedAnswers:
    """All answers of one gateway that may be given again."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._running: dict[str, Computation] = {}

    @asynccontextmanager
    async def get(
        self,
        key: str,
        ttl_s: float,
        make: Callable[[Computation], Awaitable[bytes]],
        wait: TimeLeft,
        *,
        priority: int = 0,
        shares: bool = True,
        reads: bool = True,
    ) -> AsyncIterator[Shared]:
        """Give the answer that belongs to a key; `make` computes it when nobody has, or is about to where it `shares`.

        What Redis has is given only where this request `reads` it. A new answer goes to Redis when the context
        ends, so that the client need not wait for that. Raises what `make` raises; who has waited in vain takes the
        answer that Redis has meanwhile, such as that of a more urgent request, where it has one. Those that wait for
        another's share its answer, or that the request is invalid; who fails by other causes, such as a time-out of its
        own, or goes away leaves the work to the next in line. Nobody waits for the computation of another to begin for
        longer than its `wait`.
        """
        while shares and (running := self._running.get(key)) is not None:
            body = await running.shared(wait, priority)
            if body is not None:
                yield Shared(body, hit=True)
                return
            if self._running.get(key) is running:
                break  # it goes on, and this request does not wait for it
        own, before = Computation(priority), self._running.get(key)
        if shares and (before is None or priority < before.priority):
            self._running[key] = own
        try:
            shared = await self._found_or_made(key, make, own) if reads else Shared(await make(own), hit=False)
            own.ends(shared.body)
            yield shared
            if own.may_be_kept:
                await self._keep(key, shared, ttl_s)
        except InvalidRequest as error:
            own.ends(error=error)
            raise
        finally:
            if self._running.get(key) is own:
                del self._running[key]
                if before is not None and not before.ended:
                    self._running[key] = before
            own.ends()

    async def _found_or_made(
        self, key: str, make: Callable[[Computation], Awaitable[bytes]], own: Computation
    ) -> Shared:
        body = await self._store.get(key)
        if body is not None:
            return Shared(body, hit=True)
        began_s = self._clock()
        try:
            return Shared(await make(own), hit=False)
        except ServiceError as error:
            has_waited = self._clock() - began_s > PATIENCE_S  # in a flood most are refused at once
            if isinstance(error, InvalidRequest) or not has_waited or (body := await self._store.get(key)) is None:
                raise
            return Shared(body, hit=True)

    async def _keep(self, key: str, shared: Shared, ttl_s: float) -> None:
        if not shared.hit and len(shared.body) <= MAX_BYTES:
            await self._store.put(key, shared.body, ttl_s)
