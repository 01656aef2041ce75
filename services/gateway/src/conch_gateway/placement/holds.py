"""How a request is held while an engine starts for it: for how long, what its client hears, and how it is sent away.

A stream waits as long as the request may last. Its status is held back for a moment, since an engine may be there
soon; then comments show that it waits. A plain request ends before a proxy would cut it, with a word when to come
again. `admission.py` decides who is held.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from conch_contracts.openai.sampling import BATCH_PRIORITY
from conch_gateway.placement.retry_times import MOST_S, spread_s
from conch_gateway.telemetry.metrics import HoldEnd
from conch_kit.deadlines import deadlines
from conch_kit.errors import ModelNotFound, RateLimited, ServiceError, Unavailable

MODEL_STARTING = "model_starting"
MODEL_AT_REST = "model_at_rest"
MODEL_NOT_READY = "model_not_ready"
BATCH_PART = 0.5
"""How much of the room for bodies batches may take: what would start an engine for them must still find room."""
NOT_KNOWN_S = 30.0
"""When a client is told to come again where nobody knows how long a start takes."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What a request brings for the case that an engine must start for it."""

    patience_s: float
    """How long it may be held at most."""
    ended: Callable[[float], None]
    """Hears for how many seconds it was held."""
    tell: Callable[[float | None], Awaitable[None]] | None = None
    """Lets a client that reads a stream know that an engine starts, ready in so many seconds; None: nobody hears it."""
    first_word_s: float = 5.0
    """How long the status of a stream is held back."""
    next_word_s: float = 10.0


@dataclass(slots=True)
class EngineStart:
    """What is known of a model's start: since when it is wanted, and how long it takes."""

    takes_s: float | None = None
    since: float | None = None
    """When somebody was first held for it; None: nobody was, or the engine came."""
    last: float = 0.0
    """When somebody was last held."""

    def wanted(self, now: float) -> None:
        """Note that somebody is held; what was wanted long ago, and never came, was another start."""
        forgotten = now - self.last > MOST_S + (self.takes_s or NOT_KNOWN_S)
        if self.since is None or forgotten:
            self.since = now
        self.last = now

    def left_s(self, now: float) -> float | None:
        """Return in how many seconds an engine should be there; None: nobody knows."""
        if self.takes_s is None:
            return None
        return max(0.0, self.takes_s - (0.0 if self.since is None else now - self.since))

    def retry_after_s(self, now: float) -> float:
        """Return when a client should come again, each another time."""
        left_s = self.left_s(now)
        return spread_s(max(1.0, NOT_KNOWN_S if left_s is None else left_s))


def still_starting(start: EngineStart, now: float) -> Unavailable:
    """Return the error for a request that was held as long as it may be."""
    return Unavailable(
        "An engine of this model is starting.", code=MODEL_STARTING, retry_after_s=start.retry_after_s(now)
    )


def at_rest() -> Unavailable:
    """Return the error for a request whose time is over, and for which no engine was started."""
    return Unavailable(
        f"No engine of this model is ready, and a request starts none that does not wait or has a priority of "
        f"{BATCH_PRIORITY} or more. Come again later, wake the model, or let a request of lower priority wait.",
        code=MODEL_AT_REST,
        retry_after_s=spread_s(MOST_S),
    )


def start_failed(reason: str) -> Unavailable:
    """Return the error for a model whose engine cannot start."""
    after_s = spread_s(NOT_KNOWN_S)
    return Unavailable(f"No engine of this model starts: {reason}", code=MODEL_NOT_READY, retry_after_s=after_s)


def end_of_hold(error: BaseException | None) -> HoldEnd:
    """Return how the hold of a request has ended, by what it raised."""
    match error:
        case None:
            return HoldEnd.SERVED
        case RateLimited():
            return HoldEnd.REFUSED
        case ModelNotFound():
            return HoldEnd.DELETED
        case Unavailable() if error.code != MODEL_NOT_READY:
            return HoldEnd.EXPIRED
        case ServiceError():
            return HoldEnd.FAILED
        case _:
            return HoldEnd.GONE


class HeldWait:
    """A context around the wait for an engine: its client hears that one starts, and it ends in time.

    `Deadlines` look at its times, so who is held costs neither a timer nor a task.
    """

    __slots__ = ("_clock", "_ends", "_granted", "_hold", "_loop", "_start", "_telling", "_word", "when")

    def __init__(
        self,
        granted: asyncio.Future[Any],
        hold: Hold,
        ends: Callable[[], float],
        start: EngineStart,
        clock: Callable[[], float],
    ) -> None:
        """`granted` gets None at the end, which may move, and where the client cannot be told."""
        self._granted = granted
        self._hold = hold
        self._ends = ends
        self._start = start
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._word = math.inf if hold.tell is None else clock() + hold.first_word_s
        self._telling: asyncio.Task[None] | None = None
        self.when = 0.0
        """When it looks at the clock next, on the loop's clock."""

    async def __aenter__(self) -> None:
        self._set_next_look()
        deadlines().add(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise what a client cannot be told for; its last word comes before its answer."""
        deadlines().remove(self)
        telling, self._telling = self._telling, None
        if telling is None:
            return
        if error is None:
            try:
                await telling
            finally:
                del telling  # its error holds this frame, and a cycle would hold all of the request
        elif not telling.cancel() and not telling.cancelled():
            telling.exception()  # nobody else asks for it

    def due(self, now: float) -> None:
        """Look at the clock."""
        now = self._clock()
        if now >= self._ends():
            self._end()
        elif self._hold.tell is None or now < self._word:
            self._set_next_look()
        else:
            self.when = math.inf  # a write has a limit of its own
            self._telling = self._loop.create_task(self._told(self._hold.tell(self._start.left_s(now))))

    async def _told(self, telling: Awaitable[None]) -> None:
        try:
            await telling
        except BaseException:
            self._end()
            raise
        self._word = self._clock() + self._hold.next_word_s
        self._set_next_look()

    def _end(self) -> None:
        deadlines().remove(self)
        if not self._granted.done():
            self._granted.set_result(None)

    def _set_next_look(self) -> None:
        self.when = self._loop.time() + min(self._ends(), self._word) - self._clock()
