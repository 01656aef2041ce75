"""Pure: which rows of which requests go to the engine together.

Rows of about one length share a batch, so that little of it is padding. Requests take turns: the one whose turn it is
chooses the length, then each gives one row after the other until the batch is full. So a request with thousands of
rows fills what others leave free, and a request with one row waits for a batch, not for that request.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conch_contracts.messages.encoding import Row

_FINEST = 8
_NARROWEST_COMPANION = 0.75
"""Rows that are narrower than this part of a batch wait for one of their own."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one call of an engine may hold."""

    rows: int
    tokens: int
    """Padding included."""


@dataclass(slots=True, eq=False)
class WaitingRows:
    """The rows of one request that are not computed yet, by width."""

    rows: Sequence[Row]
    alone: bool = False
    """Whether its rows share no batch with another request's, because one of them may be bad."""
    _by_width: dict[int, deque[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.put_back(range(len(self.rows)))

    def put_back(self, indexes: Iterable[int]) -> None:
        """Let these rows wait again."""
        for index in indexes:
            self._by_width.setdefault(width_of(self.rows[index].tokens), deque()).append(index)

    def take(self, width: int) -> int | None:
        """Return the next row of this width, which waits no longer; None when there is none."""
        rows = self._by_width.get(width)
        if not rows:
            return None
        index = rows.popleft()
        if not rows:
            del self._by_width[width]
        return index

    @property
    def widths(self) -> Sequence[int]:
        """The widths of the rows that wait, the longest waiting first."""
        return tuple(self._by_width)


@dataclass(frozen=True, slots=True)
class BatchMember:
    """One row in a batch, and the request that it belongs to."""

    owner: WaitingRows
    index: int

    @property
    def row(self) -> Row:
        """The row itself."""
        return self.owner.rows[self.index]


def width_of(length: int) -> int:
    """Return the width of the rows that a row of this length is batched with: at most a third more than its own."""
    step = max(_FINEST, 1 << max(0, (length - 1).bit_length() - 2))
    return -(-length // step) * step


def next_batch(queue: deque[WaitingRows], limits: BatchLimits) -> list[BatchMember]:
    """Take the rows of the next batch out of the queue; a request that has given all its rows leaves it."""
    if not queue:
        return []
    leader = queue[0]
    width = leader.widths[0]
    capacity = max(1, min(limits.rows, limits.tokens // width))
    company = [leader] if leader.alone else [waiting for waiting in queue if not waiting.alone]
    members: list[BatchMember] = []
    for each in _companions(company, width):
        _fill(members, company, each, capacity)
    queue.rotate(-1)
    for waiting in {member.owner for member in members}:
        if not waiting.widths:
            queue.remove(waiting)
    return members


def _companions(company: Sequence[WaitingRows], width: int) -> list[int]:
    found = {each for waiting in company for each in waiting.widths}
    return sorted((each for each in found if width * _NARROWEST_COMPANION <= each <= width), reverse=True)


def _fill(members: list[BatchMember], company: Sequence[WaitingRows], width: int, capacity: int) -> None:
    """Add rows of this width, one of each request in turn."""
    givers = list(company)
    while givers and len(members) < capacity:
        left = []
        for waiting in givers[: capacity - len(members)]:
            if (index := waiting.take(width)) is not None:
                members.append(BatchMember(waiting, index))
                left.append(waiting)
        givers = left
