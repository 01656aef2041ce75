"""The HTTP session that kopf watches with: it tells when one is opened or closed, or says anything.

kopf keeps bookmarks to itself, and on a quiet cluster they are all that comes, once a minute. They are the only proof
that a watch on which nothing happens is not dead.
"""

from collections.abc import AsyncIterator
from typing import Any, Protocol, cast

import aiohttp
import kopf

_WATCH = "watch"
"""The parameter that tells a watch from a list."""


class Listener(Protocol):
    """Learns about watches by the path of their URL."""

    def opened(self, watch: str) -> None:
        """Learn that a watch is being opened."""

    def closed(self, watch: str) -> None:
        """Learn that it was closed, or could not be opened."""

    def heard(self, watch: str) -> None:
        """Learn that something came out of it: an event or a bookmark."""


def listening_session(access: kopf.ConnectionInfo, listener: Listener) -> kopf.AiohttpSession:
    """Return a session with this access to the API server, as kopf makes one itself."""

    class Response(_Response):
        told = listener

    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=access.as_ssl_context()),
        headers=access.as_http_headers(),
        proxy=access.proxy_url,
        trust_env=bool(access.trust_env),
        response_class=Response,
        trace_configs=[_attempts(listener)],
    )
    return kopf.AiohttpSession(
        server=access.server, default_namespace=access.default_namespace, aiohttp_session=session
    )


def _attempts(listener: Listener) -> aiohttp.TraceConfig:
    """Return what tells of watches from the first attempt on: one whose answer never begins is silent as well."""

    async def begun(_: object, __: object, request: aiohttp.TraceRequestStartParams) -> None:
        if _WATCH in request.url.query:
            listener.opened(request.url.path)

    async def failed(_: object, __: object, request: aiohttp.TraceRequestExceptionParams) -> None:
        if _WATCH in request.url.query:
            listener.closed(request.url.path)

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(begun)
    trace.on_request_exception.append(failed)
    return trace


class _Response(aiohttp.ClientResponse):
    told: Listener

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        response = await super().start(connection)
        if _WATCH in self.url.query and self.ok:
            self.content = cast(aiohttp.StreamReader, _Content(self.content, self.told, self.url.path))
        elif _WATCH in self.url.query:
            self.told.closed(self.url.path)
        return response


class _Content:
    """The content of a response, that says when some of it has come, and when that is over."""

    def __init__(self, content: aiohttp.StreamReader, told: Listener, watch: str) -> None:
        self._content = content
        self._told = told
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._content.iter_chunked(size):
                self._told.heard(self._watch)
                yield chunk
        finally:
            self._told.closed(self._watch)
