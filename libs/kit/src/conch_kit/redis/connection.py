"""The only module that imports redis-py: one connection to Redis, and its exceptions as ours.

A connection that fails or whose caller is cancelled in the middle of a round trip is closed on the spot, so a reply
that was not read can never be taken for the answer to the next command.
"""

from collections.abc import Sequence
from typing import Any

from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.exceptions import RedisError, ResponseError

from conch_kit.redis.errors import RegistryError, RegistryUnavailable

Argument = str | bytes | int | float
Command = Sequence[Argument]


class RedisConnection:
    """One connection, made on first use. It is either between two round trips or closed."""

    def __init__(self, url: str, connect_timeout_s: float) -> None:
        self._connection = _connection(url, connect_timeout_s)

    @property
    def connected(self) -> bool:
        """Whether the last round trip, if any, left it usable."""
        return bool(self._connection.is_connected)

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
            await self._connection.send_packed_command(self._connection.pack_commands(commands))
        except (RedisError, OSError) as error:
            raise RegistryUnavailable(str(error)) from error

    async def receive(self) -> Any:
        """Return the next reply."""
        try:
            return await self._connection.read_response()
        except ResponseError as error:
            return RegistryError(str(error))
        except (RedisError, OSError) as error:
            raise RegistryUnavailable(str(error)) from error

    async def close(self) -> None:
        """Close without waiting for anybody."""
        await self._connection.disconnect(nowait=True)


def _connection(url: str, connect_timeout_s: float) -> AbstractConnection:
    options: dict[str, Any] = dict(parse_url(url))
    kind: type[AbstractConnection] = options.pop("connection_class", Connection)
    defaults = {"protocol": 2, "driver_info": None, "socket_timeout": None, "socket_connect_timeout": connect_timeout_s}
    return kind(**{**options, **defaults})
