"""Counts the requests of one tokenizer process, on the fast path and beside it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from conch_kit.errors import ServiceError, Unavailable
from conch_tokenizer.children.frames import Operation
from conch_tokenizer.metrics import TokenizerMetrics


class RequestCount:
    """Knows how many requests are in flight, and tells the metrics what became of each."""

    def __init__(self, metrics: TokenizerMetrics) -> None:
        self._metrics = metrics
        self.in_flight = 0

    @contextmanager
    def counted(self, operation: Operation) -> Iterator[None]:
        """Surround the work on a request whose body is there."""
        entered = self.entered()
        try:
            yield
        except BaseException as exc:
            self.left(operation, entered, exc)
            raise
        self.left(operation, entered, None)

    def entered(self) -> float:
        """Note that a request's body is there; return the time, for `left`."""
        self.in_flight += 1
        self._metrics.in_flight.set(self.in_flight)
        return time.perf_counter()

    def left(self, operation: Operation, entered: float, failure: BaseException | None) -> None:
        """Note that a request has its answer, or none for this reason."""
        name = operation.name.lower()
        self.in_flight -= 1
        self._metrics.in_flight.set(self.in_flight)
        self._metrics.requests.labels(name, _outcome(failure)).inc()
        self._metrics.request_seconds.labels(name).observe(time.perf_counter() - entered)


def _outcome(failure: BaseException | None) -> str:
    if failure is None:
        return "ok"
    if isinstance(failure, ServiceError) and failure.status < 500:
        return "refused"
    return "unavailable" if isinstance(failure, Unavailable) else "failed"
