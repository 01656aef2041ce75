"""One connection to Redis: hiredis packs commands and reads replies, on asyncio's streams.

redis-py (8.1) would do the same, and costs each process 0.1 s of its start and 8 MiB for what Conch does not use: it
imports all of its modules, those for clusters, sentinels and searches too. hiredis takes 1 ms and 0.1 MiB.

A connection that fails or whose caller is cancelled in the middle of a round trip is closed on the spot, so a reply
that was not read can never be taken for the answer to the next command.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import hiredis

from conch_kit.deadlines import time_limit
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.redis.server_address import ServerAddress

Argument = str | bytes | int | float
Command = Sequence[Argument]

_READ_BYTES: Final = 64 * 1024
_MORE: Final = object()
"""What the parser says while a reply is not whole."""
_UNAVAILABLE: Final = ("LOADING", "NOAUTH", "WRONGPASS", "ERR max number of clients reached")
"""Beginnings of error replies by which a server says that it serves nobody, or not this user."""


class RedisConnection:
    """One connection, made on first use. It is either between two round trips or closed."""

    def __init__(self, address: ServerAddress, connect_timeout_s: float) -> None:
        self._address = address
        self._connect_timeout_s = connect_timeout_s
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._replies = _parser()

    @property
    def connected(self) -> bool:
        """Whether the last round trip, if any, left it usable."""
        return self._writer is not None

    async def roundtrip(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and return their replies in order; error replies are returned as RegistryError."""
        try:
            await self.send(commands)
            return [await self.receive() for _ in commands]
        except BaseException:
            await self.close()
            raise

    async def send(self, commands: Sequence[Command]) -> None:
        """Send commands without waiting for replies."""
        try:
            writer = self._writer or await self._connect()
            writer.write(b"".join(map(_packed, commands)))
            await writer.drain()
        except OSError as error:
            raise RegistryUnavailable(str(error)) from error

    async def receive(self) -> Any:
        """Return the next reply."""
        if self._reader is None:
            raise RegistryUnavailable("The connection to Redis is closed.")
        try:
            while (reply := self._replies.gets()) is _MORE:
                data = await self._reader.read(_READ_BYTES)
                if not data:
                    raise RegistryUnavailable("Redis has closed the connection.")
                self._replies.feed(data)
        except (OSError, hiredis.ProtocolError) as error:
            raise RegistryUnavailable(str(error)) from error
        if isinstance(reply, RegistryError) and str(reply).startswith(_UNAVAILABLE):
            raise RegistryUnavailable(str(reply))
        return reply

    async def close(self) -> None:
        """Close without waiting for anybody."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None
        self._replies = _parser()

    async def _connect(self) -> asyncio.StreamWriter:
        """Connect and say who asks, or close again."""
        try:
            with time_limit(self._connect_timeout_s):
                self._reader, self._writer = await self._address.open()
                writer = self._writer
                for command in self._address.greeting():
                    writer.write(_packed(command))
                    reply = await self.receive()
                    if isinstance(reply, RegistryError):
                        raise RegistryUnavailable(str(reply))
        except TimeoutError:
            await self.close()
            raise RegistryUnavailable(f"Redis took no connection within {self._connect_timeout_s:g} s.") from None
        except BaseException:
            await self.close()
            raise
        return writer


def _parser() -> hiredis.Reader:
    return hiredis.Reader(replyError=RegistryError, notEnoughData=_MORE)


def _packed(command: Command) -> bytes:
    packed: bytes = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # it says that a command is one word
    return packed
