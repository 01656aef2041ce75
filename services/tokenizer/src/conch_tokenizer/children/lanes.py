"""The lanes of a pool's children, as their service sees them: it hands connections over and watches the work on them.

A gateway gets a lane to each child. What is asked on a lane passes the service by; the service sees on the work board
since when a child has been at a request, ends it when that is too long, and knows which request it was.
"""

import asyncio
import itertools
import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from conch_kit.timed_waits import wait_at_most
from conch_tokenizer.children.connection import ChildConnection
from conch_tokenizer.children.limits import TimeLimits
from conch_tokenizer.children.service_orders import LaneOrder
from conch_tokenizer.children.work_board import WorkBoard
from conch_tokenizer.errors import ChildError, ChildHung, ChildLost, WorkStage

log = logging.getLogger(__name__)

_LOOK_S = 0.1
_KEPT = 4096
"""Lanes and outcomes that are remembered: a gateway asks after them at once."""
_END_S = 1.0
"""How long the end of a child may be on its way to its service when a gateway knows of it already."""


@dataclass(frozen=True, slots=True, eq=False)
class _Watched:
    """A child, and the outcome of what it was at when it ended."""

    child: ChildConnection
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Lanes:
    """Gives lanes to a fixed number of children; an async context manager that watches them meanwhile."""

    def __init__(self, board: WorkBoard, size: int, limits: TimeLimits) -> None:
        self._board = board
        self._size = size
        self._limits_s = {WorkStage.BEGUN: limits.template_s, WorkStage.ENCODING: limits.encode_s}
        self._numbers = itertools.count(1)
        self._children: dict[int, _Watched] = {}
        self._lanes: OrderedDict[int, _Watched] = OrderedDict()
        self._outcomes: OrderedDict[tuple[int, int], ChildError] = OrderedDict()
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watch = asyncio.create_task(self._look_on())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, stack: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    def started(self, child: ChildConnection) -> None:
        """Let a child have lanes."""
        self._children[child.row] = _Watched(child)

    def ended(self, child: ChildConnection) -> None:
        """Note what a child was at when it ended."""
        watched, row = self._children.pop(child.row, None), self._board.row(child.row)
        if row.working:
            self._outcomes.setdefault(row.request, ChildLost(f"child {child.number} ended", row.picture))
            _forget(self._outcomes)
        row.clear()
        if watched is not None:
            watched.over.set()

    @property
    def complete(self) -> bool:
        """Whether every child is there; else new lanes would not be spread over all of them."""
        return len(self._children) == self._size

    def give(self, descriptor: int) -> None:
        """Make a connection a lane of the child that has the fewest; there must be one.

        The descriptor stays the caller's to close. Where the child has just ended, the connection ends with it.
        """
        watched = min(self._children.values(), key=lambda each: self._board.row(each.child.row).lanes)
        number = next(self._numbers)
        with suppress(ChildLost):
            watched.child.take_lane(descriptor, LaneOrder(number, self._size))
        self._lanes[number] = watched
        _forget(self._lanes)

    def child(self, lane: int) -> ChildConnection | None:
        """Return the child that has a lane; None when it has ended."""
        watched = self._lanes.get(lane)
        return None if watched is None or watched.child.lost.is_set() else watched.child

    async def outcome(self, lane: int, number: int) -> ChildError | None:
        """Return what ended a lane over a request; None when it was not this request."""
        watched = self._lanes.get(lane)
        if watched is not None:
            await wait_at_most(watched.over, _END_S)
        return self._outcomes.pop((lane, number), None)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for watched in list(self._children.values()):
                self._look_at(watched.child)

    def _look_at(self, child: ChildConnection) -> None:
        row = self._board.row(child.row)
        limit_s = self._limits_s[row.stage]
        if row.worked_s > limit_s and not child.lost.is_set():
            stage = row.stage
            if stage is WorkStage.ENCODING:
                stage = child.encoding_since(row.computed_s, limit_s)
            self._outcomes[row.request] = ChildHung(limit_s, stage, row.picture)
            _forget(self._outcomes)
            log.warning("A child worked too long on a request.", extra={"child": child.number})
            child.kill()


def _forget(kept: OrderedDict[int, _Watched] | OrderedDict[tuple[int, int], ChildError]) -> None:
    while len(kept) > _KEPT:
        kept.popitem(last=False)
