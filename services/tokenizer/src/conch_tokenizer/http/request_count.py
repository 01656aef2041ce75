"""Counts the requests that come to one tokenizer process by HTTP; children count those of lanes themselves."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from conch_contracts.messages.tokenizer_frames import Operation
from conch_kit.errors import ServiceError, Unavailable
from conch_tokenizer.children.work_board import WorkOutcome, WorkRow


class RequestCount:
    """Keeps the service's own row of the work board."""

    def __init__(self, row: WorkRow) -> None:
        self._row = row

    @contextmanager
    def counted(self, operation: Operation) -> Iterator[None]:
        """Surround the work on a request whose body is there."""
        entered = time.perf_counter()
        self._row.in_flight += 1
        outcome = WorkOutcome.OK
        try:
            yield
        except BaseException as exc:
            outcome = _outcome(exc)
            raise
        finally:
            self._row.in_flight -= 1
            self._row.count(operation, outcome, time.perf_counter() - entered)


def _outcome(failure: BaseException) -> WorkOutcome:
    if isinstance(failure, ServiceError) and failure.status < 500:
        return WorkOutcome.REFUSED
    return WorkOutcome.UNAVAILABLE if isinstance(failure, Unavailable) else WorkOutcome.FAILED
