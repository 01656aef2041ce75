"""What runs beside a request: it notices that the client has gone, and that somebody has stopped moving.

One task per request waits for the client's hang-up and wakes up now and then to look at the clock. So an event
costs no timer; it only notes the time. `decide` is the pure part.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import Self, assert_never

from conch_kit.asgi import ClientGone, Receive
from conch_kit.errors import UpstreamTimeout


class ClientStalled(Exception):
    """The client has not read its stream for too long; the connection is dropped."""


class Beat(Enum):
    """What to do at a look at the clock."""

    NOTHING = auto()
    KEEP_ALIVE = auto()
    CLIENT_STALLED = auto()
    WORKER_SILENT = auto()
    OVERDUE = auto()


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each kind of silence may last, in seconds."""

    deadline: float
    """When the whole request must have ended, on the monotonic clock."""
    keep_alive_s: float
    """Silence towards the client before it gets a comment; streams only."""
    write_stall_s: float
    """One write towards the client."""


@dataclass(slots=True)
class Progress:
    """When something last moved, on the monotonic clock; written by the relay, read by the watch."""

    sent: float
    """The last byte went to the client, or the request began."""
    sending: float = 0.0
    """When the write began that is under way; 0: none is."""
    asked: float = 0.0
    """When the worker was last heard or asked; 0: it owes nothing."""
    patience_s: float = 0.0
    """How long the worker may stay silent."""


def decide(now: float, progress: Progress, limits: Limits) -> Beat:
    """Return what this look at the clock asks for."""
    if now >= limits.deadline:
        return Beat.OVERDUE
    if progress.sending:
        stalled = now - progress.sending >= limits.write_stall_s
        return Beat.CLIENT_STALLED if stalled else Beat.NOTHING
    if progress.asked and now - progress.asked >= progress.patience_s:
        return Beat.WORKER_SILENT
    if now - progress.sent >= limits.keep_alive_s:
        return Beat.KEEP_ALIVE
    return Beat.NOTHING


class Watch:
    """A context around the work on one request; its errors say why the work was ended.

    Raises ClientGone, ClientStalled or UpstreamTimeout in place of the cancellation that it causes.
    """

    def __init__(
        self,
        receive: Receive,
        keep_alive: Callable[[], Awaitable[None]] | None,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._receive = receive
        self._keep_alive = keep_alive
        self._limits = limits
        self._clock = clock
        self._scope = asyncio.timeout(None)
        self._task: asyncio.Task[None] | None = None
        self._reason: Exception | None = None
        self.progress = Progress(sent=clock())

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
        try:
            await self._scope.__aexit__(kind, exc, trace)
        except TimeoutError:
            raise self._reason or exc or TimeoutError from None

    async def _run(self) -> None:
        while self._reason is None:
            tick = min(self._limits.keep_alive_s / 3, max(0.0, self._limits.deadline - self._clock()))
            try:
                async with asyncio.timeout(tick):
                    if (await self._receive())["type"] == "http.disconnect":
                        self._end(ClientGone())
            except TimeoutError:
                await self._look()

    async def _look(self) -> None:
        now = self._clock()
        match decide(now, self.progress, self._limits):
            case Beat.NOTHING:
                pass
            case Beat.KEEP_ALIVE:
                self.progress.sent = now
                await self._comment()
            case Beat.CLIENT_STALLED:
                self._end(ClientStalled())
            case Beat.WORKER_SILENT:
                self._end(UpstreamTimeout("The engine stopped answering.", code="timeout"))
            case Beat.OVERDUE:
                self._end(UpstreamTimeout("The request did not end in time.", code="timeout"))
            case unreachable:
                assert_never(unreachable)

    async def _comment(self) -> None:
        if self._keep_alive is None:
            return
        try:
            async with asyncio.timeout(self._limits.write_stall_s):
                await self._keep_alive()
        except TimeoutError:
            self._end(ClientStalled())

    def _end(self, reason: Exception) -> None:
        self._reason = reason
        self._scope.reschedule(0)
