"""Gives up processes that have fallen silent while they owe an answer: frozen ones, and those of a node that has gone.

The connections to such a process stay open, so nothing else would end the wait before the request's own deadline. A
process that has vanished from the registry is asked for any answer at all; one that gives none has its requests taken
from it, and those of which the client has seen nothing go elsewhere. One that merely cannot reach Redis, or that ends
in good order, keeps them. A request costs nothing for this.
"""

import asyncio
import logging
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

from conch_contracts.names import WorkerUrl
from conch_gateway.upstream.port import ConnectTimedOut, Post, Upstream, UpstreamFailure
from conch_kit.registry.snapshot import Snapshot

log = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""How long a process may take to answer anything: longer than a busy machine makes it."""
_PATH = "/"
"""Nothing is served there, so that the answer is an error, and at once."""


class Connections(Upstream, Protocol):
    """An HTTP client that knows from whom it waits for answers."""

    def awaited(self) -> set[WorkerUrl]:
        """Return the processes that owe the beginning of an answer."""

    def give_up(self, url: WorkerUrl) -> int:
        """Take the answers as lost whose beginning a process owes, and return how many these were."""


class UnresponsiveWorkers:
    """Asks the processes that have vanished, and gives up those that do not answer; an async context manager."""

    def __init__(self, connections: Connections, patience_s: float = PATIENCE_S) -> None:
        self._connections = connections
        self._patience_s = patience_s
        self._alive: frozenset[WorkerUrl] = frozenset()
        self._asking: dict[WorkerUrl, asyncio.Task[None]] = {}
        self._second_look: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._second_look is not None:
            self._second_look.cancel()
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def look(self, snapshot: Snapshot) -> None:
        """Begin to ask those that owe an answer and are not in the registry any more.

        A request that was being sent when its process vanished is found by a second look.
        """
        alive = frozenset(beat.url for beats in snapshot.workers.values() for beat in beats)
        vanished, self._alive = self._alive - alive, alive
        self._ask()
        if vanished:
            if self._second_look is not None:
                self._second_look.cancel()
            self._second_look = asyncio.get_running_loop().call_later(self._patience_s, self._ask)

    def _ask(self) -> None:
        for url in self._connections.awaited() - self._alive - self._asking.keys():
            self._asking[url] = asyncio.create_task(self._follow(url))

    async def _follow(self, url: WorkerUrl) -> None:
        """Ask one of them again and again, until it is back, owes nothing, or is silent."""
        try:
            while url not in self._alive and url in self._connections.awaited():
                if await self._is_silent(url):
                    lost = self._connections.give_up(url)
                    log.warning("A process answers nothing any more.", extra={"url": url, "requests": lost})
                    return
                await asyncio.sleep(self._patience_s)
        finally:
            del self._asking[url]

    async def _is_silent(self, url: WorkerUrl) -> bool:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._answered(url)
        except TimeoutError:
            return True
        except UpstreamFailure:
            return False  # it refuses connections and has closed, or will close, those that it has
        return False

    async def _answered(self, url: WorkerUrl) -> None:
        """Wait until it answers anything; a connection that did not come in time may come at the next try."""
        while True:
            with suppress(ConnectTimedOut):
                async with self._connections.post(Post(url, _PATH, (), b"{}")):
                    return
