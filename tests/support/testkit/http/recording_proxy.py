"""A proxy in front of a running Conch that keeps every answer, so that a test can judge what clients got.

Clients speak with it as with Conch itself, frame by frame. It runs in a thread of its own, so that a test may block
while they do.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import ClientConnectionResetError, web
from yarl import URL

from testkit.servers.catch_all_http import every_path
from testkit.threads import in_thread

_HOP = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding")


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer, as its client got it."""

    method: str
    path: str
    status: int
    content_type: str
    body: bytes


@dataclass(slots=True)
class RecordingProxy:
    """Where the proxy answers, and what it has seen; a client that hangs up leaves nothing."""

    server: URL
    base_url: str = ""
    rewrite: Callable[[bytes], bytes] = bytes
    """What becomes of a request's body on its way."""
    answers: list[Answer] = field(default_factory=list)

    async def relay(self, request: web.Request, upstream: aiohttp.ClientSession) -> web.StreamResponse:
        """Answer one call."""
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        url = URL(str(self.server.origin()) + request.raw_path, encoded=True)
        body = self.rewrite(await request.read())
        async with upstream.request(request.method, url, headers=headers, data=body or None) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            parts = []
            try:
                async for part in answer.content.iter_any():
                    parts.append(part)
                    await response.write(part)
                await response.write_eof()
            except ClientConnectionResetError:
                return response
        self.answers.append(Answer(request.method, request.path, answer.status, answer.content_type, b"".join(parts)))
        return response


@contextmanager
def recording_proxy(base_url: str, rewrite: Callable[[bytes], bytes] = bytes) -> Iterator[RecordingProxy]:
    """Give a proxy on a free port of 127.0.0.1 to the Conch of this URL."""
    api = RecordingProxy(URL(base_url), rewrite=rewrite)

    async def serve(started: Callable[[], None], stop: asyncio.Event) -> None:
        async with _serving(api) as port:
            api.base_url = str(api.server.with_host("127.0.0.1").with_port(port))
            started()
            await stop.wait()

    with in_thread(serve, "recording-proxy"):
        yield api


@asynccontextmanager
async def _serving(api: RecordingProxy) -> AsyncIterator[int]:
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, skip_auto_headers=["Accept-Encoding", "Content-Type", "User-Agent"]
    ) as upstream:

        async def answer(request: web.Request) -> web.StreamResponse:
            return await api.relay(request, upstream)

        async with every_path(answer) as port:
            yield port
