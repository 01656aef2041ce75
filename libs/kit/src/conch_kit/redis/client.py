"""Commands to Redis: few connections, a time-out on every command, and a breaker.

The breaker opens after three failures in a row, and then everybody fails at once. Callers are never used to find out
whether Redis is back: after a first failure a task of the client asks Redis itself, so the breaker opens within a
second and closes within a second or two of Redis' return, however few callers there are.

Only short commands count, because they say something about Redis: a bulk transfer also fails when it is large, or has
little time. That makes the client ask, and nothing else.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from conch_kit.redis.breaker import Breaker
from conch_kit.redis.connection import Argument, Command, RedisConnection
from conch_kit.redis.errors import RegistryBusy, RegistryError, RegistryUnavailable
from conch_kit.redis.server_address import ServerAddress
from conch_kit.settings import SettingsError
from conch_kit.side_by_side import end

log = logging.getLogger(__name__)

_CONNECTIONS = 4
_BULK_CONNECTIONS = 2
_PROBE_S = 1.0
_SUSPICION_S = 0.05


class RedisClient:
    """One Redis, as an async context manager.

    A command with a `timeout_s` of its own is taken for a bulk transfer: it neither shares connections with the short
    ones nor is a failure of it counted. A time-out begins when a connection is free; so much time may pass until then.
    """

    def __init__(self, url: str, *, connect_timeout_s: float = 0.25, command_timeout_s: float = 0.25) -> None:
        """Raise SettingsError for a URL that names no server, or files that cannot be read."""
        try:
            address = ServerAddress.parse(url)
        except (ValueError, OSError) as error:
            raise SettingsError(f"The URL of Redis (CONCH_REDIS_URL) cannot be used: {error}") from error
        self._connect: Callable[[], RedisConnection] = lambda: RedisConnection(address, connect_timeout_s)
        self._timeout_s = command_timeout_s
        self._short = _Connections(self._connect, _CONNECTIONS)
        self._bulk = _Connections(self._connect, _BULK_CONNECTIONS)
        self._breaker = Breaker()
        self._prober: asyncio.Task[None] | None = None

    @property
    def available(self) -> bool:
        """Whether Redis is believed to answer."""
        return not self._breaker.open

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._prober is not None:
            await end(self._prober)
        await self._short.close()
        await self._bulk.close()

    async def execute(self, *args: Argument, timeout_s: float | None = None) -> Any:
        """Run one command and return its reply.

        Raises RegistryUnavailable, as RegistryBusy where no connection was free; RegistryError for an error reply.
        """
        (reply,) = await self.pipeline([args], timeout_s=timeout_s)
        if isinstance(reply, RegistryError):
            raise reply
        return reply

    async def pipeline(self, commands: Sequence[Command], *, timeout_s: float | None = None) -> list[Any]:
        """Run commands in one round trip and return their replies; an error reply is returned, not raised."""
        if self._breaker.open:
            raise RegistryUnavailable("Redis does not answer, as earlier commands have shown.")
        connections = self._short if timeout_s is None else self._bulk
        try:
            replies = await connections.roundtrip(commands, self._timeout_s if timeout_s is None else timeout_s)
        except RegistryBusy:
            raise
        except RegistryUnavailable:
            if timeout_s is None:
                self._failed()
            else:
                self._suspect()
            raise
        self._answered()
        return replies

    def pubsub(self, channel: str, *, ping_s: float = 1.0) -> "Subscription":
        """Return a subscription on a connection of its own; use it with `async with` and `async for`."""
        return Subscription(self._connect(), channel, ping_s=ping_s, patience_s=self._timeout_s)

    def _failed(self) -> None:
        if self._breaker.failure():
            log.warning("Redis does not answer; going on with what is in memory.")
        self._suspect()

    def _suspect(self) -> None:
        """Have Redis asked whether it answers."""
        if self._prober is None or self._prober.done():
            self._prober = asyncio.create_task(self._probe())

    def _answered(self) -> None:
        if self._breaker.success():
            log.info("Redis answers again.")

    async def _probe(self) -> None:
        while True:
            await asyncio.sleep(_PROBE_S if self._breaker.open else _SUSPICION_S)
            try:
                await self._short.roundtrip([("PING",)], self._timeout_s)
            except RegistryUnavailable:
                self._failed()
            else:
                self._answered()
                return


class _Connections:
    """A few connections that commands of one sort share."""

    def __init__(self, connect: Callable[[], RedisConnection], size: int) -> None:
        self._connect = connect
        self._slots = asyncio.Semaphore(size)
        self._idle: list[RedisConnection] = []

    async def roundtrip(self, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        await self._take_slot(timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._attempt(commands)
        except TimeoutError:
            raise RegistryUnavailable(f"Redis did not answer within {timeout_s:g} s.") from None
        finally:
            self._slots.release()

    async def _take_slot(self, timeout_s: float) -> None:
        if not self._slots.locked():
            await self._slots.acquire()  # at once
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise RegistryBusy(f"All connections to Redis were in use for {timeout_s:g} s.") from None

    async def _attempt(self, commands: Sequence[Command]) -> list[Any]:
        while self._idle:  # a connection that idled may have died with an earlier Redis: all commands are idempotent
            with suppress(RegistryUnavailable):
                return await self._use(self._idle.pop(), commands)
        return await self._use(self._connect(), commands)

    async def _use(self, connection: RedisConnection, commands: Sequence[Command]) -> list[Any]:
        replies = await connection.roundtrip(commands)
        self._idle.append(connection)
        return replies

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()


class Subscription(AsyncIterator[bytes]):
    """The messages of one channel. Redis is pinged on the same connection, so a hung one is noticed.

    Raises RegistryUnavailable when Redis has been silent for longer than a ping takes.
    """

    def __init__(self, connection: RedisConnection, channel: str, *, ping_s: float, patience_s: float) -> None:
        self._connection = connection
        self._channel = channel
        self._ping_s = ping_s
        self._patience_s = patience_s
        self._pinger: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._connection.roundtrip([("SUBSCRIBE", self._channel)])
        except TimeoutError:
            raise RegistryUnavailable(f"Redis did not confirm the subscription to {self._channel}.") from None
        self._pinger = asyncio.create_task(self._ping())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pinger is not None:
            await end(self._pinger)
        await self._connection.close()

    async def __anext__(self) -> bytes:
        while True:
            match await self._receive():
                case [b"message", _, bytes(payload)]:
                    return payload
                case _:
                    continue  # an answer to a ping

    async def _receive(self) -> object:
        try:
            async with asyncio.timeout(self._ping_s + self._patience_s):
                return await self._connection.receive()
        except TimeoutError:
            raise RegistryUnavailable(f"The subscription to {self._channel} fell silent.") from None

    async def _ping(self) -> None:
        with suppress(RegistryUnavailable):  # the reader will notice
            while True:
                await asyncio.sleep(self._ping_s)
                await self._connection.send([("PING",)])
