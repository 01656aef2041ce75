"""The same `Upstream` on aiohttp: for comparison, and as a way out when a proxy between the parts needs more HTTP.

Only this module knows aiohttp; it is imported when the setting `upstream` asks for it.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Self

import aiohttp

from conch_gateway.upstream.port import AnswerLost, ConnectFailed, ConnectTimedOut, Post, UpstreamResponse


class AiohttpUpstream:
    """An HTTP client on one aiohttp session."""

    def __init__(self, *, connect_timeout_s: float = 1.0) -> None:
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=self._timeout, connector=aiohttp.TCPConnector(limit=0), auto_decompress=False
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def post(self, request: Post) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Send the request and wait for the head of the answer; see `Upstream.post`."""
        return self._exchange(request)

    @asynccontextmanager
    async def _exchange(self, request: Post) -> AsyncIterator[UpstreamResponse]:
        if self._session is None:
            raise ConnectFailed("The client is not open.")
        headers = {name.decode(): value.decode() for name, value in request.headers}
        headers["content-type"] = "application/json"
        try:
            response = await self._session.post(request.url + request.path, data=request.body, headers=headers)
        except aiohttp.ServerTimeoutError as exc:
            raise ConnectTimedOut(f"No connection to {request.url}: {exc}.") from exc
        except aiohttp.ClientConnectorError as exc:
            raise ConnectFailed(f"No connection to {request.url}: {exc}.") from exc
        except aiohttp.ClientError as exc:
            raise AnswerLost(f"No answer: {exc}.", started=False) from exc
        try:
            yield AiohttpAnswer(response)
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()


class AiohttpAnswer:
    """An `UpstreamResponse` read from an aiohttp response."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[bytes, bytes] = {name.lower(): value for name, value in response.raw_headers}

    async def read(self) -> bytes:
        """Return what has arrived since the last call, waiting for the first byte; empty at the end."""
        try:
            return await self._response.content.readany()
        except aiohttp.ClientError as exc:
            raise AnswerLost(f"The connection broke: {exc}.", started=True) from exc

    async def push(self, sink: Callable[[bytes], bool]) -> None:
        """Return at once: aiohttp hands nothing over before the reader wakes up."""
