"""The queue before the children: which are idle, which requests wait, and who gets the next one.

A large text takes a child for seconds. So large requests never have all children at once, however many of them come:
the last one is for small requests. Apart from that the first to come is the first served.
"""

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from conch_tokenizer.children.connection import ChildConnection

SMALL_BYTES = 64 * 1024
"""Of a request's body; more is a large request. What a child does with less takes some milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class QueuedRequest:
    """One waiting request; the future receives its child."""

    child: asyncio.Future[ChildConnection]
    large: bool


class ChildQueue:
    """The idle children of a pool of so many, and the requests that wait for one."""

    def __init__(self, size: int) -> None:
        self._most_large = max(1, size - 1)
        self._idle: deque[ChildConnection] = deque()
        self._with_large: set[ChildConnection] = set()
        self._waiting: deque[QueuedRequest] = deque()

    @property
    def waiting(self) -> int:
        """Return how many requests wait."""
        return len(self._waiting)

    def take(self, *, large: bool) -> ChildConnection | None:
        """Return an idle child that such a request may have now; it must be given back with `offer`."""
        if large and len(self._with_large) >= self._most_large:
            return None
        while self._idle:
            child = self._idle.pop()
            if not child.lost.is_set():
                if large:
                    self._with_large.add(child)
                return child
        return None

    def join(self, *, large: bool) -> QueuedRequest:
        """Queue a request; one that gives up before it has a child must `leave`."""
        request = QueuedRequest(asyncio.get_running_loop().create_future(), large)
        self._waiting.append(request)
        return request

    def leave(self, request: QueuedRequest) -> None:
        """Take a request out of the queue; a child that it got in this very moment goes to the next."""
        with suppress(ValueError):
            self._waiting.remove(request)
        if request.child.done() and not request.child.cancelled():
            self.offer(request.child.result())

    def offer(self, child: ChildConnection) -> None:
        """Take in a child that is new, or done with its request, or lost over it."""
        self._with_large.discard(child)
        if not child.lost.is_set():
            self._idle.append(child)
        self._serve()

    def _serve(self) -> None:
        """Give idle children to the requests that may have one, the oldest first."""
        for request in list(self._waiting):
            if request.child.done():
                self._waiting.remove(request)
            elif (child := self.take(large=request.large)) is not None:
                self._waiting.remove(request)
                request.child.set_result(child)
            elif not self._idle:
                return
