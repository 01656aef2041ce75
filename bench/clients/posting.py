"""Posts on kept connections that cost as little as those of the other measurements."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from bench.clients.connection import Answer, Connection, EventTally

_TIMEOUT_S = 120.0


class PostingClient:
    """A client of one server."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self._address = urlsplit(url)
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self._idle: list[Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._idle:
            connection.close()

    async def post(self, path: str, content: bytes, media_type: str = "application/json") -> Answer:
        """Send a body and wait for the whole answer; raises RuntimeError for one that is none."""
        head = f"POST {path} HTTP/1.1\r\nHost: {self._address.netloc}\r\nContent-Type: {media_type}\r\n"
        request = f"{head}{self._headers}Content-Length: {len(content)}\r\n\r\n".encode() + content
        connection = self._idle.pop() if self._idle else await self._connect()
        connection.begin(request)
        answer = await connection.finished(_TIMEOUT_S)
        if answer.status != 200:
            connection.close()
            raise RuntimeError(f"{path} answered {answer.status}: {answer.tail[:300]!r}")
        self._idle.append(connection)
        return answer

    async def _connect(self) -> Connection:
        host, port = self._address.hostname, self._address.port
        assert host is not None
        assert port is not None
        _, connection = await asyncio.get_running_loop().create_connection(lambda: Connection(EventTally()), host, port)
        return connection
