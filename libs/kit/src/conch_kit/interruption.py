"""What may end a request from outside: the client that goes away, and the end of the drain.

A `RequestScope` surrounds the work on one request, in the request's own task, much as `asyncio.timeout` does: the work
sees a cancellation, which the scope swallows and remembers as its reason. It cancels the work itself when the client
goes; any other cancellation of a request's task is the server's, at the end of its drain.
"""

import asyncio
from enum import StrEnum
from types import TracebackType
from typing import Self

from conch_kit.asgi import Receive, wait_disconnect


class Reason(StrEnum):
    """Why a request was interrupted."""

    CLIENT_GONE = "client_gone"
    SHUTTING_DOWN = "shutting_down"


class InFlight:
    """How many requests are being worked on."""

    def __init__(self) -> None:
        self.count = 0

    def scope(self, receive: Receive) -> "RequestScope":
        """Return the scope for one more request."""
        return RequestScope(receive, self)


class RequestScope:
    """Cancels the work inside it when the client goes, and swallows the cancellation."""

    def __init__(self, receive: Receive, in_flight: InFlight) -> None:
        self.reason: Reason | None = None
        self._receive = receive
        self._in_flight = in_flight
        self._settled = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._in_flight.count += 1
        self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.settle()
        self._in_flight.count -= 1
        if kind is not asyncio.CancelledError:
            return False
        self._task.uncancel()
        if self.reason is None:
            self.reason = Reason.SHUTTING_DOWN
        return True

    def settle(self) -> None:
        """Stop watching; call it before the last body, after which a server reports every client as gone."""
        self._settled = True
        self._watcher.cancel()

    async def _watch(self) -> None:
        await wait_disconnect(self._receive)
        if not self._settled:
            self.reason = Reason.CLIENT_GONE
            self._task.cancel()
