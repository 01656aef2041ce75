"""The server: it accepts, and ends in good order or at once."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from conch_kit.deadlines import deadlines
from conch_kit.http.asgi import ASGIApp
from conch_kit.http_server.connection import HttpConnection
from conch_kit.http_server.limits import DEFAULT_LIMITS, ConnectionLimits
from conch_kit.http_server.parsing_turn import ParsingTurn
from conch_kit.http_server.refusal import RefusalForm, openai_refusal
from conch_kit.http_server.request import Request

log = logging.getLogger(__name__)

_CUT_GRACE_S = 2.0
"""How long requests that were cut may take for their last words."""
_BACKLOG = 2048


class HttpServer:
    """Serves an ASGI application on a socket; made where an event loop runs."""

    def __init__(
        self, app: ASGIApp, limits: ConnectionLimits = DEFAULT_LIMITS, refusal_form: RefusalForm = openai_refusal
    ) -> None:
        self.app = app
        self.limits = limits
        self.refusal_form = refusal_form
        self.closing = False
        """Whether the request under way is the last one of its connection."""
        self._connections: set[HttpConnection] = set()
        self._requests: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._accepting: asyncio.Server | None = None
        self._empty = asyncio.Event()
        self.now = self._loop.time
        self.turn = ParsingTurn(self._loop)

    @asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Accept connections while the body runs; what is left at its end is cut."""
        self._accepting = await self._loop.create_server(lambda: HttpConnection(self), sock=listener, backlog=_BACKLOG)
        try:
            yield
        finally:
            self._stop_accepting()
            await self.cut()

    async def finish(self) -> None:
        """Accept nothing more, let the requests under way end, and wait for that."""
        self._stop_accepting()
        for connection in list(self._connections):
            connection.finish()
        await self._empty.wait()

    async def cut(self) -> None:
        """Cancel the requests that still run, wait a moment for their ends, and drop all connections."""
        requests = list(self._requests)
        for task in requests:
            task.cancel()
        if requests:
            log.warning("Requests were cut at the end of the drain.", extra={"requests": len(requests)})
            await asyncio.wait(requests, timeout=_CUT_GRACE_S)
        for connection in list(self._connections):
            connection.close()

    # --- connections call these ------------------------------------------------------------------------

    def opened(self, connection: HttpConnection) -> None:
        """Hear of a new connection."""
        self._connections.add(connection)
        deadlines().add(connection)

    def lost(self, connection: HttpConnection) -> None:
        """Hear that a connection is no more."""
        self._connections.discard(connection)
        deadlines().remove(connection)
        self._note_empty()

    def start(self, request: Request) -> None:
        """Have the application answer a request, in a task of its own."""
        task = self._loop.create_task(request.run(self.app))
        self._requests.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        self._note_empty()

    def _note_empty(self) -> None:
        if self.closing and not (self._connections or self._requests):
            self._empty.set()

    def _stop_accepting(self) -> None:
        self.closing = True
        if self._accepting is not None:
            self._accepting.close()
        self._note_empty()
