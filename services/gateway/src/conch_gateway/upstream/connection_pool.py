"""Keep-alive connections to tokenizers and workers: the gateway's own `Upstream`.

A kept connection may have been closed by the other side at the moment it is used again. When that happens before a
single byte came back, the request is sent once more on a fresh connection.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from conch_contracts.names import WorkerUrl
from conch_gateway.upstream.connection import UpstreamConnection
from conch_gateway.upstream.port import AnswerLost, ConnectFailed, ConnectTimedOut, Post

MAX_IDLE_PER_HOST = 1024


class ConnectionPool:
    """An HTTP/1.1 client that keeps its connections; closes them on exit."""

    def __init__(self, *, connect_timeout_s: float = 1.0, max_idle_s: float = 4.0) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._max_idle_s = max_idle_s
        self._idle: dict[WorkerUrl, deque[UpstreamConnection]] = {}
        self._open: set[UpstreamConnection] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

    def post(self, request: Post) -> "PooledResponse":
        """Send the request and wait for the head of the answer; see `Upstream.post`."""
        return PooledResponse(self, request)

    def reuse(self, url: WorkerUrl) -> UpstreamConnection | None:
        """Return a kept connection that looks alive, most recently used first."""
        idle = self._idle.get(url)
        now = asyncio.get_running_loop().time()
        while idle:
            connection = idle.pop()
            if connection.usable and now - connection.idle_since < self._max_idle_s:
                return connection
            connection.abort()
        return None

    async def connect(self, url: WorkerUrl) -> UpstreamConnection:
        """Open a connection; raises ConnectFailed."""
        loop = asyncio.get_running_loop()
        host, port = address(url)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: UpstreamConnection(loop, self._open.discard, url), host, port
                )
        except TimeoutError:
            raise ConnectTimedOut(f"No connection to {url} within {self._connect_timeout_s:g} s.") from None
        except OSError as exc:
            raise ConnectFailed(f"No connection to {url}: {exc.strerror or exc}.") from exc
        self._open.add(connection)
        return connection

    def awaited(self) -> set[WorkerUrl]:
        """Return the processes that owe the beginning of an answer."""
        return {connection.url for connection in self._open if connection.waits}

    def give_up(self, url: WorkerUrl) -> int:
        """Take the answers as lost whose beginning a process owes, and return how many these were."""
        owed = [connection for connection in self._open if connection.url == url and connection.waits]
        for connection in owed:
            connection.give_up()
        return len(owed)

    def release(self, url: WorkerUrl, connection: UpstreamConnection) -> None:
        """Keep a connection whose exchange is complete; close any other."""
        if not connection.finish():
            return
        idle = self._idle.setdefault(url, deque(maxlen=MAX_IDLE_PER_HOST))
        if len(idle) == MAX_IDLE_PER_HOST:
            idle.popleft().abort()
        connection.idle_since = asyncio.get_running_loop().time()
        idle.append(connection)


class PooledResponse:
    """One request and its answer, as a context."""

    __slots__ = ("_connection", "_pool", "_request")

    def __init__(self, pool: ConnectionPool, request: Post) -> None:
        self._pool = pool
        self._request = request
        self._connection: UpstreamConnection | None = None

    async def __aenter__(self) -> UpstreamConnection:
        """Send and wait for the head; a stale kept connection is replaced once."""
        request = self._request
        data = encode(request)
        kept = self._pool.reuse(request.url)
        if kept is None:
            return await self._ask(await self._pool.connect(request.url), data)
        try:
            return await self._ask(kept, data)
        except AnswerLost as lost:
            if kept.received or kept.given_up:
                raise
            return await self._ask(await self._reconnect(lost), data)

    async def _reconnect(self, lost: AnswerLost) -> UpstreamConnection:
        """Connect again; when nobody listens any more, the request itself may have been what broke the process."""
        try:
            return await self._pool.connect(self._request.url)
        except ConnectFailed:
            raise lost from None

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._pool.release(self._request.url, self._connection)

    async def _ask(self, connection: UpstreamConnection, data: bytes) -> UpstreamConnection:
        connection.send(data)
        try:
            if self._request.rest is not None:
                await connection.send_rest(self._request.rest)
            await connection.wait_head()
        except BaseException:  # also on cancellation: whoever computes the answer must notice
            connection.abort()
            raise
        self._connection = connection
        return connection


def encode(request: Post) -> bytes:
    """Return the request as bytes, without its rest."""
    kind, size = b"application/json", len(request.body)
    if request.rest is not None:
        kind, size = b"application/octet-stream", size + request.rest.size
    lines = [
        b"POST %b HTTP/1.1\r\nhost: %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n"
        % (request.path.encode(), request.url.partition("//")[2].encode(), kind, size)
    ]
    lines.extend(b"%b: %b\r\n" % header for header in request.headers)
    lines.append(b"\r\n")
    lines.append(request.body)
    return b"".join(lines)


def address(url: WorkerUrl) -> tuple[str, int]:
    """Return host and port of `http://host:port`; raises ConnectFailed for anything else."""
    scheme, _, rest = url.partition("://")
    host, _, port = rest.rstrip("/").rpartition(":")
    if scheme != "http" or not host or not port.isdigit():
        raise ConnectFailed(f"Expected http://host:port, found {url!r}.")
    return host.strip("[]"), int(port)
