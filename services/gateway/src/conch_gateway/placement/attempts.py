"""One request's attempts at a service: each asks another of its processes, as long as the retry budget allows.

`Dispatcher` and `TokenizerClient` decide which failures another process may mend; what all have in common is here.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from conch_contracts.names import SERVER_SHUTTING_DOWN, WorkerUrl
from conch_contracts.records import Heartbeat, Route
from conch_gateway.placement.pool_return import NO_PROCESS_RETRY_S, PoolReturn
from conch_gateway.placement.retry_budget import RetryBudget
from conch_gateway.placement.time_left import TimeLeft
from conch_gateway.placement.worker_choice import WorkerBalancer, askable
from conch_gateway.upstream.port import (
    BodySource,
    ConnectFailed,
    ConnectTimedOut,
    Header,
    Post,
    Upstream,
    UpstreamFailure,
    UpstreamResponse,
)
from conch_kit.errors import ServiceError, Unavailable

ATTEMPTS = 3
"""Of one request."""

T = TypeVar("T")

_NOBODY: frozenset[WorkerUrl] = frozenset()
"""One for all: each call of `frozenset` makes another of 216 bytes, which a request that waits keeps."""


@dataclass(frozen=True, slots=True)
class ServiceProcesses:
    """The processes of one service, and what all requests to them share."""

    name: str
    """What errors call one of them."""
    upstream: Upstream
    alive: Callable[[], Sequence[Heartbeat]]
    retries: RetryBudget
    returning: PoolReturn
    """Where requests wait when all of them are away."""
    balancer: WorkerBalancer = field(default_factory=WorkerBalancer)


class RequestAttempts:
    """Which processes one request has asked in vain, what failed last, and how long it may still wait."""

    __slots__ = (
        "_asked",
        "_failure",
        "_gave_up",
        "_processes",
        "_refused",
        "_route",
        "_size",
        "_slow",
        "failed",
        "wait",
    )

    def __init__(self, processes: ServiceProcesses, route: Route, wait: TimeLeft, size: int) -> None:
        """`size` is how many bytes the request keeps in memory while it waits."""
        processes.retries.earn()
        self.wait = wait
        """What is left of the route's `queue.wait`: it passes in this context, and what refusals behind the first took
        is taken off."""
        self._route = route
        self._size = size
        self._failure: ServiceError | None = None
        self.failed = 0
        """Attempts that failed, but for those that cost nothing."""
        self._processes = processes
        self._asked: WorkerUrl | None = None
        """The process of this attempt."""
        self._gave_up = _NOBODY
        self._refused = _NOBODY
        """Those of them that are there, and have said no."""
        self._slow = _NOBODY
        """Those that took no connection in time: one of them is asked again when nobody else is left."""

    def note(self, failure: ServiceError) -> None:
        """Keep what an attempt failed with."""
        self._failure = failure

    def take_failure(self) -> ServiceError:
        """Return what the client is told when there are no more attempts: what failed last.

        It is kept no longer, since its traceback will hold whoever keeps it, and all of the request with that.
        """
        failure, self._failure = self._failure, None
        return failure or Unavailable(f"No {self._processes.name} is running.", retry_after_s=NO_PROCESS_RETRY_S)

    async def ask(
        self,
        path: str,
        headers: tuple[Header, ...],
        body: bytes,
        read: Callable[[UpstreamResponse], Awaitable[T]],
        rest: BodySource | None = None,
    ) -> T:
        """Return what `read` makes of the answer of the least busy process that was not given up.

        Raises UpstreamFailure when that one gave no answer, and gives it up; ConnectFailed when nobody is left, as
        when the last one went while the request waited for an engine.
        """
        processes = self._processes
        process = self._asked = processes.balancer.pick(processes.alive(), without=self._gave_up, at_last=self._slow)
        if process is None:
            raise ConnectFailed("There is nobody to ask.")
        try:
            with processes.balancer.lease(process):
                async with processes.upstream.post(Post(process, path, headers, body, rest)) as answer:
                    processes.returning.answered(process)
                    return await read(answer)
        except UpstreamFailure as exc:
            if isinstance(exc, ConnectFailed):
                processes.balancer.pass_over(process)
                slow = isinstance(exc, ConnectTimedOut) and self.failed < ATTEMPTS - 1
                self._slow = self._slow | {process} if slow else self._slow - {process}
            self._gave_up |= {process}
            self.note(Unavailable(f"No {processes.name} answered.", retry_after_s=NO_PROCESS_RETRY_S))
            raise

    def give_up(self, failure: ServiceError) -> None:
        """Ask the process that was asked last no more; `failure` is what it has said."""
        if self._asked is not None:
            self._gave_up |= {self._asked}
            if failure.code != SERVER_SHUTTING_DOWN:
                self._refused |= {self._asked}
        self.note(failure)

    def anyone_left(self) -> bool:
        """Tell whether there is a process for another attempt."""
        return bool(askable(self._processes.alive(), without=self._gave_up, at_last=self._slow))

    def refused(self) -> bool:
        """Tell whether nobody is left because of a process that is there and has said no."""
        alive = self._processes.alive()
        there = askable(alive, without=self._gave_up - self._refused, at_last=_NOBODY)
        return bool(there) and not self.anyone_left()

    async def until_someone_is_there(self) -> None:
        """Wait for a process to come back, where all are away.

        Raises what `take_failure` gives when there is none to wait for, too many requests wait, or none came in time,
        and RateLimited when those that wait take too much memory.
        """
        line = self._processes.returning
        while not self.anyone_left():
            if self.refused() or not await line.turn(self._route, self.wait.seconds(), self._size):
                raise self.take_failure()
            self._gave_up = self._refused

    def may_follow(self, failure: Exception) -> bool:
        """Count an attempt that ended so; tell whether there may be another one, and take it from the retry budget.

        One whose connection was refused costs nothing: nobody has worked for it, and each process is asked once until
        one is back. Nor does one that got no connection in time, where nobody is left to ask.
        """
        if isinstance(failure, ConnectFailed) and not (isinstance(failure, ConnectTimedOut) and self.anyone_left()):
            return True
        self.failed += 1
        return not self.refused() and self.failed < ATTEMPTS and self._processes.retries.spend()
