"""The HTTP session that kopf watches with: it says when a watch is opened, and whenever anything comes out of one.

kopf keeps bookmarks to itself, and on a quiet cluster they are all that comes, once a minute. They are the only proof
that a watch on which nothing happens is not dead.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol, cast

import aiohttp
import kopf


class Listener(Protocol):
    """Learns about watches by the path of their URL."""

    def opened(self, watch: str) -> None:
        """Learn that a watch was opened."""

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
    )
    return kopf.AiohttpSession(
        server=access.server, default_namespace=access.default_namespace, aiohttp_session=session
    )


class _Response(aiohttp.ClientResponse):
    told: Listener

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        response = await super().start(connection)
        if "watch" in self.url.query and self.ok:
            path = self.url.path
            self.told.opened(path)
            self.content = cast(aiohttp.StreamReader, _Content(self.content, lambda: self.told.heard(path)))
        return response


class _Content:
    """The content of a response, that says when some of it has come."""

    def __init__(self, content: aiohttp.StreamReader, heard: Callable[[], None]) -> None:
        self._content = content
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        async for chunk in self._content.iter_chunked(size):
            self._heard()
            yield chunk
