"""A real HTTP/1.1 server on a free port whose every answer is a script: for faults that a sound server never makes."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from conch_contracts.names import LANE_PATH

Script = Callable[["Call"], Awaitable[None]]

_BACKLOG = 4096
"""Connections that may come at once: one more would be tried again after 1, 3, 7 s and so on."""


class Call:
    """One request as it arrived, and the connection to answer on."""

    def __init__(self, head: str, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request, *lines = head.strip().split("\r\n")
        self.path = request.split(" ")[1]
        self.headers = headers_of(lines)
        self.body = body
        self._reader = reader
        self._writer = writer

    async def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send a complete answer."""
        fields = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        await self.raw(f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{fields}\r\n".encode() + body)

    async def begin(self) -> None:
        """Send the head of a chunked answer."""
        await self.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        """Send one chunk; an empty one ends the answer."""
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    def finish(self) -> None:
        """Close the connection once everything is sent."""
        self._writer.close()

    def close(self) -> None:
        """Drop the connection."""
        self._writer.transport.abort()

    async def closed(self) -> None:
        """Wait until the other side has dropped the connection."""
        with suppress(ConnectionError):
            while await self._reader.read(1024):
                pass


class ScriptedHttp:
    """Serves `script` on an address of this machine; counts connections and requests."""

    def __init__(self, script: Script, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self._host = host
        self._tls = tls
        self.connections = 0
        self.calls: list[Call] = []
        self.url = ""
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, 0, ssl=self._tls, backlog=_BACKLOG)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self._tls else ''}://{self._host}:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop_listening(self) -> None:
        """Take no more connections; those that are open go on."""
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                call = await self._read(reader, writer)
                if call.path == LANE_PATH:  # as of a tokenizer that gives none
                    await call.answer(b"", status=404)
                    continue
                self.calls.append(call)
                await self.script(call)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self._tasks.discard(task)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Call:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = headers_of(head.strip().split("\r\n")[1:]).get("content-length", "0")
        return Call(head, await reader.readexactly(int(length)), reader, writer)


def headers_of(lines: Iterable[str]) -> dict[str, str]:
    """Return header lines by their lower-case names."""
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
