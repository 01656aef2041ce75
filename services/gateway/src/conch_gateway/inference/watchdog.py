"""What runs beside a request: it notices that the client has gone, that nothing moves any more, or that time is up.

The connection tells when the client hangs up; now and then the watchdog looks at the clock. So neither a request nor an
event costs a task or a timer; it only notes the time. `decide` is the pure part.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import Self, assert_never

from conch_gateway.http.client_connection import ClientConnection
from conch_kit.deadlines import deadlines
from conch_kit.errors import UpstreamTimeout
from conch_kit.http.asgi import ClientGone


class ClientStalled(Exception):
    """The client has not read its stream for too long; the connection is dropped."""


class WatchdogVerdict(Enum):
    """What to do at a look at the clock."""

    NOTHING = auto()
    KEEP_ALIVE = auto()
    WORKER_UNRESPONSIVE = auto()
    OVERDUE = auto()


@dataclass(frozen=True, slots=True)
class WatchdogLimits:
    """How long each kind of silence may last, in seconds."""

    deadline: float
    """When the whole request must have ended, on the monotonic clock."""
    keep_alive_s: float
    """Silence towards the client before it gets a comment; streams only."""


@dataclass(slots=True)
class RequestActivity:
    """When something last moved, on the monotonic clock; written by the relay, read by the watchdog."""

    sent: float
    """The last byte went to the client, or the request began."""
    sending: float = 0.0
    """When the write began that is under way and waits for the client, not for the worker; 0: none is."""
    asked: float = 0.0
    """When the worker was asked, or last sent something; 0: it owes nothing."""
    patience_s: float = 0.0
    """How long the worker may stay silent."""

    def owes_nothing(self) -> None:
        """Note that no worker is asked now."""
        self.asked = 0.0


def decide(now: float, activity: RequestActivity, limits: WatchdogLimits) -> WatchdogVerdict:
    """Return what this look at the clock asks for."""
    if activity.sending:
        return WatchdogVerdict.NOTHING  # a write has a limit of its own, and the end of an answer may be in it
    if now >= limits.deadline:
        return WatchdogVerdict.OVERDUE
    if activity.asked and now - activity.asked >= activity.patience_s:
        return WatchdogVerdict.WORKER_UNRESPONSIVE
    if now - activity.sent >= limits.keep_alive_s:
        return WatchdogVerdict.KEEP_ALIVE
    return WatchdogVerdict.NOTHING


class RequestWatchdog:
    """A context around the work on one request; its errors say why the work was ended.

    Raises ClientGone, ClientStalled or UpstreamTimeout in place of the cancellation that it causes.
    """

    __slots__ = (
        "_cancelling",
        "_client",
        "_clock",
        "_comment",
        "_commenting",
        "_limits",
        "_loop",
        "_reason",
        "_task",
        "activity",
        "when",
    )

    def __init__(
        self,
        client: ClientConnection,
        comment: Callable[[], Awaitable[None]] | None,
        limits: WatchdogLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._comment = comment
        self._limits = limits
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self.when = 0.0
        """When it looks at the clock next, on the loop's clock."""
        self._commenting: asyncio.Task[None] | None = None
        self._reason: Exception | None = None
        self.activity = RequestActivity(sent=clock())

    async def __aenter__(self) -> Self:
        if self._client.gone:
            raise ClientGone
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task is not None else 0
        self._client.on_gone = self._gone
        self._set_next_look()
        deadlines().add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.on_gone = None
        deadlines().remove(self)
        if self._commenting is not None:
            self._commenting.cancel()
        if self._reason is None or self._task is None:
            return
        # Only a cancellation that is ours alone is replaced; one from outside goes on.
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            reason, self._reason = self._reason, None
            try:
                raise reason from None
            finally:
                del reason  # its traceback holds this frame, and a cycle would hold all of the request

    def _set_next_look(self) -> None:
        tick, left = self._limits.keep_alive_s / 3, self._limits.deadline - self._clock()
        if left > 0:  # else a write is under way, which may take longer
            tick = min(tick, left)
        self.when = self._loop.time() + tick

    def due(self, now: float) -> None:
        """Look at the clock."""
        self._set_next_look()
        now = self._clock()
        match decide(now, self.activity, self._limits):
            case WatchdogVerdict.NOTHING:
                pass
            case WatchdogVerdict.KEEP_ALIVE:
                self.activity.sent = now
                if self._comment is not None:
                    self._commenting = self._loop.create_task(self._send(self._comment))
            case WatchdogVerdict.WORKER_UNRESPONSIVE:
                self._end(UpstreamTimeout("The engine stopped answering.", code="timeout"))
            case WatchdogVerdict.OVERDUE:
                self._end(UpstreamTimeout("The request did not end in time.", code="timeout"))
            case unreachable:
                assert_never(unreachable)

    async def _send(self, comment: Callable[[], Awaitable[None]]) -> None:
        try:
            await comment()
        except ClientStalled as stalled:
            self._end(stalled)

    def _gone(self) -> None:
        self._end(ClientGone())

    def _end(self, reason: Exception) -> None:
        deadlines().remove(self)
        if self._reason is None and self._task is not None:
            self._reason = reason
            self._task.cancel()
