"""Memory that a service shares with its children: what each works on since when, and what came of its requests.

A child's work on a lane passes its service by. So the child writes here what it begins and ends, for less than a
microsecond, and the service looks: it kills a child that takes too long, and adds the counts up when it is scraped.
A board has a row for each child and one for the service itself; each row has one writer. All cells are doubles.
"""

import mmap
import os
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from conch_contracts.messages.tokenizer_frames import Operation
from conch_kit.metrics import LATENCY_BUCKETS
from conch_tokenizer.children.processor_time import processor_time_s
from conch_tokenizer.errors import WorkStage


class WorkOutcome(StrEnum):
    """What became of a request to a tokenizer."""

    OK = "ok"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"


OUTCOMES: Final = tuple(WorkOutcome)
COUNTED: Final = (
    Operation.PREPARE,
    Operation.TOKENIZE,
    Operation.DETOKENIZE,
    Operation.PREPARE_ROWS,
    Operation.CHECK_GRAMMAR,
)
_SINCE, _STAGE, _PICTURE, _COMPUTED, _LANE, _NUMBER, _LANES, _IN_FLIGHT, _FIRST_COUNT = range(9)
_NONE: Final = -1
_STAGES: Final = (WorkStage.BEGUN, WorkStage.ENCODING)
_SUM: Final = len(OUTCOMES)
_FIRST_BUCKET: Final = _SUM + 1
_PER_OPERATION: Final = _FIRST_BUCKET + len(LATENCY_BUCKETS) + 1
_OFFSETS: Final[Mapping[int, int]] = {
    operation: _FIRST_COUNT + index * _PER_OPERATION for index, operation in enumerate(COUNTED)
}
_ROW: Final = _FIRST_COUNT + len(COUNTED) * _PER_OPERATION


class WorkRow:
    """What one process works on, and its counts."""

    def __init__(self, cells: "memoryview[float]") -> None:
        self._cells = cells

    # --- written by the process itself -----------------------------------------------------------

    def begin(self, lane: int, number: int) -> None:
        """Note that work on a lane's request begins."""
        cells = self._cells
        cells[_LANE], cells[_NUMBER], cells[_STAGE], cells[_PICTURE] = lane, number, 0, _NONE
        cells[_SINCE] = time.monotonic()

    def encoding(self, picture: int | None = None) -> None:
        """Note that a template is done and a long text is being encoded, or a picture read: the clock starts again."""
        self._cells[_STAGE] = _STAGES.index(WorkStage.ENCODING)
        self._cells[_PICTURE] = _NONE if picture is None else picture
        self._cells[_COMPUTED] = processor_time_s(os.getpid())
        self._cells[_SINCE] = time.monotonic()

    def end(self) -> None:
        """Note that the work has ended."""
        self._cells[_SINCE] = 0

    def count(self, operation: Operation, outcome: WorkOutcome, seconds: float) -> None:
        """Count a request that has its answer."""
        at = _OFFSETS[operation]
        cells = self._cells
        cells[at + OUTCOMES.index(outcome)] += 1
        cells[at + _SUM] += seconds
        cells[at + _FIRST_BUCKET + bisect_left(LATENCY_BUCKETS, seconds)] += 1

    @property
    def lanes(self) -> int:
        """How many lanes the process has."""
        return int(self._cells[_LANES])

    @lanes.setter
    def lanes(self, count: int) -> None:
        self._cells[_LANES] = count

    @property
    def in_flight(self) -> int:
        """How many requests it has read and not answered."""
        return int(self._cells[_IN_FLIGHT])

    @in_flight.setter
    def in_flight(self, count: int) -> None:
        self._cells[_IN_FLIGHT] = count

    # --- read by the service ---------------------------------------------------------------------

    @property
    def working(self) -> bool:
        """Whether it works on a lane's request."""
        return bool(self._cells[_SINCE])

    @property
    def worked_s(self) -> float:
        """How long it has been at this stage of its work, in seconds; 0 while it does not work."""
        since: float = self._cells[_SINCE]
        return time.monotonic() - since if since else 0.0

    @property
    def stage(self) -> WorkStage:
        """How far it has come with what it works on."""
        return _STAGES[int(self._cells[_STAGE])]

    @property
    def computed_s(self) -> float:
        """How long it had been computing when it began to encode, in seconds."""
        return self._cells[_COMPUTED]

    @property
    def picture(self) -> int | None:
        """Which picture of the request it reads."""
        picture = int(self._cells[_PICTURE])
        return None if picture == _NONE else picture

    @property
    def request(self) -> tuple[int, int]:
        """The lane and the number of the request that it works on."""
        return int(self._cells[_LANE]), int(self._cells[_NUMBER])

    def counts(self, operation: Operation) -> Sequence[float]:
        """Return an operation's counts: of each outcome, the seconds in all, of each bucket and beyond the last."""
        at = _OFFSETS[operation]
        return self._cells[at : at + _PER_OPERATION].tolist()

    def clear(self) -> None:
        """Forget the work of a process that has ended; its counts stay."""
        for cell in (_SINCE, _LANES, _IN_FLIGHT):
            self._cells[cell] = 0


class WorkBoard:
    """Rows of one file in memory; row 0 belongs to the service."""

    def __init__(self, descriptor: int) -> None:
        """Map the file behind a descriptor, which stays the caller's."""
        self._memory = memoryview(mmap.mmap(descriptor, 0)).cast("d")

    def row(self, index: int) -> WorkRow:
        """Return one row."""
        return WorkRow(self._memory[index * _ROW : (index + 1) * _ROW])

    def rows(self) -> list[WorkRow]:
        """Return all rows."""
        return [self.row(index) for index in range(len(self._memory) // _ROW)]

    def in_flight(self) -> int:
        """Return how many requests all processes have read and not answered."""
        return sum(row.in_flight for row in self.rows())


@contextmanager
def board_memory(rows: int) -> Iterator[int]:
    """Give the descriptor of a new file in memory for a board with so many rows."""
    descriptor = os.memfd_create("conch-tokenizer-work")
    try:
        os.ftruncate(descriptor, rows * _ROW * 8)
        yield descriptor
    finally:
        os.close(descriptor)
