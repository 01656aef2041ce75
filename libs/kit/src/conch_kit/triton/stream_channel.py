"""Calls of `ModelStreamInfer` to one address: one HTTP/2 connection, opened when needed and again when it was lost."""

import asyncio
import socket
from contextlib import suppress
from functools import lru_cache

import grpc
from tritonclient.grpc import service_pb2 as pb

from conch_contracts.names import EngineAddress
from conch_kit.http2.connection import Http2Connection
from conch_kit.http2.header_blocks import literal, write_block
from conch_kit.side_by_side import end
from conch_kit.triton.checked_addresses import without_name
from conch_kit.triton.message_limits import MAX_MESSAGE_BYTES
from conch_kit.triton.stream_call import StreamCall

_PATH = f"/{pb.DESCRIPTOR.services_by_name['GRPCInferenceService'].full_name}/ModelStreamInfer"
_CONNECT_S = 2.0
"""For all addresses of an engine together."""
_GREETING_S = 5.0
"""How long a server may take to say its first word on a connection: one that has started does at once."""
_UNANSWERED_MS = 20_000
"""How long the kernel tries to bring bytes to a machine that acknowledges none."""


class StreamChannel:
    """The connection to one address, and the calls that wait for it."""

    def __init__(self, address: EngineAddress) -> None:
        self._target, name = without_name(address)
        self._authority = name or self._target
        self._connection: Http2Connection | None = None
        self._replaced: set[Http2Connection] = set()
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: list[tuple[StreamCall, bytes, bytes]] = []

    def call(
        self, request: pb.ModelInferRequest, *, timeout_s: float, most_bytes: int = MAX_MESSAGE_BYTES
    ) -> StreamCall:
        """Begin a call; the server gives up after `timeout_s` by itself, and sends at most `most_bytes` a message."""
        call = StreamCall(most_bytes)
        message = request.SerializeToString()
        body = b"\0" + len(message).to_bytes(4, "big") + message
        head = _head(self._authority) + literal(b"grpc-timeout", b"%dm" % max(1, min(timeout_s * 1000, 99_999_999)))
        connection = self._connection
        if connection is not None and connection.usable:
            call.send(connection, head, body)
        else:
            self._waiting.append((call, head, body))
            if self._connecting is None:
                self._connecting = asyncio.get_running_loop().create_task(self._connect())
        return call

    async def close(self) -> None:
        """Close the connections; calls that are open break."""
        if self._connecting is not None:
            await end(self._connecting)
        self._fail("The client was closed.")
        for connection in [*self._replaced, *([self._connection] if self._connection else [])]:
            connection.close()

    async def _connect(self) -> None:
        """Connect and send what waits, or fail it."""
        try:
            transport, connection = await self._dial()
        except (OSError, TimeoutError) as error:
            why = "nobody answers" if isinstance(error, TimeoutError) else str(error)
            self._fail(f"The engine at {self._authority} cannot be reached: {why}.")
            return
        finally:
            self._connecting = None
        with suppress(OSError, AttributeError):  # a system without this option
            sock: socket.socket = transport.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNANSWERED_MS)
        if self._connection is not None:
            self._replaced.add(self._connection)
        self._connection = connection
        asyncio.get_running_loop().call_later(_GREETING_S, self._leave_unless_greeted, connection)
        waiting, self._waiting = self._waiting, []
        for call, head, body in waiting:
            call.send(connection, head, body)

    async def _dial(self) -> tuple[asyncio.Transport, Http2Connection]:
        """Connect to the first of the addresses that takes a connection; each has its part of the time that is left.

        Raises OSError, TimeoutError included, when none does.
        """
        loop, ends = asyncio.get_running_loop(), ends_of(self._target)
        end_s = loop.time() + _CONNECT_S
        for left, (host, port) in zip(range(len(ends), 1, -1), ends, strict=False):
            with suppress(OSError):
                return await self._dial_one(host, port, (end_s - loop.time()) / left)
        return await self._dial_one(*ends[-1], end_s - loop.time())

    async def _dial_one(self, host: str, port: int, limit_s: float) -> tuple[asyncio.Transport, Http2Connection]:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(limit_s):
            return await loop.create_connection(lambda: Http2Connection(self._lost), host, port)

    def _leave_unless_greeted(self, connection: Http2Connection) -> None:
        if not connection.greeted:
            connection.close(f"The engine at {self._authority} takes connections and says nothing.")

    def _fail(self, message: str) -> None:
        waiting, self._waiting = self._waiting, []
        for call, _, _ in waiting:
            call.fail(grpc.StatusCode.UNAVAILABLE, message)

    def _lost(self, connection: Http2Connection) -> None:
        self._replaced.discard(connection)
        if self._connection is connection:
            self._connection = None


def ends_of(target: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of a target in gRPC's form, which may list several addresses."""
    listed = target.removeprefix("ipv4:").removeprefix("ipv6:").split(",")
    return [(host.strip("[]"), int(port)) for host, _, port in (end.rpartition(":") for end in listed)]


@lru_cache(maxsize=1024)
def _head(authority: str) -> bytes:
    return write_block(
        (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", _PATH),
            (":authority", authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "conch"),
        )
    )
