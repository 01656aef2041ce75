"""Announces a process to the others: every 2 s a record with a sequence number, removed when the process ends.

Redis' absence stops nothing: the next beat after its return announces the process again. Coming and going are also
published as a change, so that readers need not find out at their next look.
"""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack

from pydantic import BaseModel

from conch_contracts.names import CHANGES_CHANNEL, GATEWAYS_KEY, EngineAddress, WorkerUrl, workers_key
from conch_contracts.records import GatewayBeat, Heartbeat, Pool
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.record_writer import RecordWriter
from conch_kit.timed_waits import wait_at_most

log = logging.getLogger(__name__)

_PAUSE_S = 0.05
"""Between two beats, whatever is new."""


class _BeatWriter(RecordWriter):
    """Writes one field of one hash again and again, as an async context manager."""

    def __init__(self, redis: RedisClient, key: str, field: str, interval_s: float) -> None:
        super().__init__(redis)
        self._key = key
        self._field = field
        self._interval_s = interval_s
        self._sequence = 0
        self._announced = False
        self._news = asyncio.Event()

    @abstractmethod
    def record(self, sequence: int) -> BaseModel:
        """Return what to announce now."""

    def _farewell(self) -> list[tuple[str, ...]]:
        return [("HDEL", self._key, self._field), ("PUBLISH", CHANGES_CHANNEL, self._key)]

    async def beat(self) -> None:
        """Announce once, at once."""
        self._sequence += 1
        record = self.record(self._sequence).model_dump_json()
        try:
            await self._redis.execute("HSET", self._key, self._field, record)
            if not self._announced:
                await self._redis.execute("PUBLISH", CHANGES_CHANNEL, self._key)
            self._announced = True
        except RegistryUnavailable:
            self._announced = False
            log.debug("A heartbeat was not written.")
        except RegistryError as error:
            log.warning("Redis refuses a heartbeat.", extra={"error": str(error), "key": self._key})

    async def _run(self) -> None:
        while True:
            self._news.clear()
            await self.beat()
            await asyncio.sleep(_PAUSE_S)
            await wait_at_most(self._news, self._interval_s)


class HeartbeatWriter(_BeatWriter):
    """Announces a process of a pool with its load."""

    def __init__(
        self,
        redis: RedisClient,
        pool: Pool,
        url: str,
        *,
        in_flight: Callable[[], int],
        draining: Callable[[], bool],
        streaming: Callable[[], Collection[tuple[EngineAddress, str]]] = tuple,
        interval_s: float = 2.0,
    ) -> None:
        super().__init__(redis, workers_key(pool), url, interval_s)
        self._url = WorkerUrl(url)
        self._in_flight = in_flight
        self._draining = draining
        self._streaming = streaming

    def record(self, sequence: int) -> Heartbeat:
        """Return the process's state."""
        return Heartbeat(
            url=self._url,
            sequence=sequence,
            in_flight=self._in_flight(),
            draining=self._draining(),
            streaming=tuple(sorted(self._streaming())),
        )


class WorkerHeartbeat:
    """The heartbeat of a worker process from when it listens, marked while it drains.

    `begin` and `drain` are the callbacks that `conch_kit.service.serve` takes; closing the stack removes the record.
    """

    def __init__(
        self,
        redis: RedisClient,
        pool: Pool,
        in_flight: Callable[[], int],
        streaming: Callable[[], Collection[tuple[EngineAddress, str]]],
        stack: AsyncExitStack,
    ) -> None:
        self._redis = redis
        self._pool = pool
        self._in_flight = in_flight
        self._streaming = streaming
        self._stack = stack
        self._draining = False
        self._writer: HeartbeatWriter | None = None

    async def begin(self, url: str) -> None:
        """Announce the process under its URL."""
        self._writer = HeartbeatWriter(
            self._redis,
            self._pool,
            url,
            in_flight=self._in_flight,
            draining=lambda: self._draining,
            streaming=self._streaming,
        )
        await self._stack.enter_async_context(self._writer)

    async def drain(self) -> None:
        """Tell gateways at once that nothing new should come."""
        self._draining = True
        if self._writer is not None:
            await self._writer.beat()


class GatewayBeatWriter(_BeatWriter):
    """Announces which revision a gateway has applied."""

    def __init__(
        self, redis: RedisClient, gateway_id: str, *, revision: Callable[[], int], interval_s: float = 2.0
    ) -> None:
        super().__init__(redis, GATEWAYS_KEY, gateway_id, interval_s)
        self._id = gateway_id
        self._revision = revision
        self._applied: int | None = None

    def applied(self, revision: int) -> bool:
        """Have a revision announced soon, since somebody may wait for that; return whether it is another one."""
        is_new, self._applied = revision != self._applied, revision
        if is_new:
            self._news.set()
        return is_new

    def record(self, sequence: int) -> GatewayBeat:
        """Return the gateway's state."""
        return GatewayBeat(id=self._id, sequence=sequence, revision=self._revision())
