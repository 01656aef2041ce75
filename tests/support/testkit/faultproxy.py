"""A TCP proxy that a test can cut: what goes through it ends, and nothing new is let in until it is mended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class FaultProxy:
    """Relays connections to one place while it is whole."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._whole = True
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    def cut(self) -> None:
        """Break every connection and refuse new ones."""
        self._whole = False
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        """Let connections through again."""
        self._whole = True

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection until it ends."""
        if not self._whole:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, back}
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        finally:
            self._writers -= {writer, back}
            writer.transport.abort()
            back.transport.abort()


@asynccontextmanager
async def fault_proxy(host: str, port: int) -> AsyncIterator[FaultProxy]:
    """Give a proxy on a free port of 127.0.0.1."""
    proxy = FaultProxy(host, port)
    server = await asyncio.start_server(proxy.relay, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
