"""The queue before the children: which are idle, which requests wait, and who gets the next one."""

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from conch_tokenizer.children.connection import ChildConnection


@dataclass(frozen=True, slots=True, eq=False)
class QueuedRequest:
    """One waiting request; the future receives its child."""

    child: asyncio.Future[ChildConnection]
    wanted: ChildConnection | None
    """The only child that will do."""


class ChildQueue:
    """The idle children of a pool, and the requests that wait for one: the first to come is the first served."""

    def __init__(self) -> None:
        self._idle: deque[ChildConnection] = deque()
        self._waiting: deque[QueuedRequest] = deque()

    @property
    def waiting(self) -> int:
        """Return how many requests wait."""
        return len(self._waiting)

    def take(self, wanted: ChildConnection | None = None) -> ChildConnection | None:
        """Return an idle child, this one if one is wanted; it must be given back with `offer`."""
        if wanted is not None:
            if wanted not in self._idle:
                return None
            self._idle.remove(wanted)
            return None if wanted.lost.is_set() else wanted
        while self._idle:
            child = self._idle.pop()
            if not child.lost.is_set():
                return child
        return None

    def join(self, wanted: ChildConnection | None = None) -> QueuedRequest:
        """Queue a request; one that gives up before it has a child must `leave`."""
        request = QueuedRequest(asyncio.get_running_loop().create_future(), wanted)
        self._waiting.append(request)
        return request

    def leave(self, request: QueuedRequest) -> None:
        """Take a request out of the queue; a child that it got in this very moment goes to the next."""
        with suppress(ValueError):
            self._waiting.remove(request)
        if request.child.done() and not request.child.cancelled():
            self.offer(request.child.result())

    def forget(self, child: ChildConnection) -> None:
        """Let go of a child that is lost; it may have been idle."""
        with suppress(ValueError):
            self._idle.remove(child)

    def offer(self, child: ChildConnection) -> None:
        """Take in a child that is new, or done with its request, or lost over it."""
        if not child.lost.is_set():
            self._idle.append(child)
        for request in list(self._waiting):
            if request.child.done():
                self._waiting.remove(request)
            elif (taken := self.take(request.wanted)) is not None:
                self._waiting.remove(request)
                request.child.set_result(taken)
