"""What may interrupt the work on a request: the caller hangs up, the drain ends, or the request's time is over.

A `RequestScope` surrounds the work on one request, in the request's own task, much as `asyncio.timeout` does: the work
is cancelled, and the scope swallows the cancellation and says which interruption it was. The scope cancels the work
when the caller hangs up; any other cancellation of a request's task comes from the server, at the end of its drain.
"""

import asyncio
from enum import StrEnum
from types import TracebackType
from typing import Self

from conch_contracts.names import SERVER_SHUTTING_DOWN
from conch_kit.errors import ServiceError, Unavailable, UpstreamTimeout
from conch_kit.http.caller_connection import CallerConnection


class Interruption(StrEnum):
    """Why a request was interrupted."""

    CLIENT_GONE = "client_gone"
    SHUTTING_DOWN = "shutting_down"


class InFlightRequests:
    """How many requests are being worked on."""

    def __init__(self) -> None:
        self.count = 0

    def scope(self, caller: CallerConnection) -> "RequestScope":
        """Return the scope for one more request."""
        return RequestScope(caller, self)


class RequestScope:
    """Cancels the work inside it when the caller hangs up, and swallows every cancellation of it."""

    def __init__(self, caller: CallerConnection, in_flight: InFlightRequests) -> None:
        self.interruption: Interruption | None = None
        self._caller = caller
        self._in_flight = in_flight

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._in_flight.count += 1
        self._caller.on_gone = self._gone
        if self._caller.gone:
            self._gone()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._caller.on_gone = None
        self._in_flight.count -= 1
        if kind is not asyncio.CancelledError:
            return False
        self._task.uncancel()
        if self.interruption is None:
            self.interruption = Interruption.SHUTTING_DOWN
        return True

    def _gone(self) -> None:
        self.interruption = Interruption.CLIENT_GONE
        self._task.cancel()


def shutting_down() -> ServiceError:
    """Return the error of a request that the end of the drain cut short."""
    return Unavailable("The server is shutting down.", code=SERVER_SHUTTING_DOWN, retryable=True)


def overdue() -> ServiceError:
    """Return the error of a request whose whole time is over."""
    return UpstreamTimeout("The answer was not complete in the request's time.")
