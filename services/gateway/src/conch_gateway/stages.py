"""The stages of one generating request, each counted and traced apart: tokenizing, waiting for an engine, working.

Waiting and working have spans of their own because their cures differ: more engines for the one, faster ones for the
other. Whoever is called gets the headers under which its own spans continue the trace.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from conch_contracts.headers import TRACEPARENT
from conch_gateway.metrics import ModelMetrics
from conch_gateway.upstream.port import Header
from conch_kit.tracing import Span, Tracer

_TRACEPARENT = TRACEPARENT.encode()


class Stages:
    """The stages of one request; each is a context."""

    __slots__ = ("_clock", "_headers", "_metrics", "_parent", "_tracer")

    def __init__(
        self,
        tracer: Tracer,
        parent: Span,
        metrics: ModelMetrics,
        headers: tuple[Header, ...],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tracer = tracer
        self._parent = parent.traceparent()
        self._metrics = metrics
        self._headers = headers
        self._clock = clock

    @contextmanager
    def tokenizing(self) -> Iterator[tuple[Header, ...]]:
        """Surround the call of the tokenizer, which gets these headers."""
        with self._tracer.span("tokenize", self._parent) as span:
            yield self._below(span)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Surround the wait for a free engine."""
        began = self._clock()
        self._metrics.waiting.inc()
        try:
            with self._tracer.span("wait", self._parent):
                yield
        finally:
            self._metrics.waiting.dec()
            self._metrics.queue_wait.observe(self._clock() - began)

    @contextmanager
    def working(self) -> Iterator[tuple[Header, ...]]:
        """Surround the call of a worker, which gets these headers, until its answer is delivered."""
        self._metrics.in_flight.inc()
        try:
            with self._tracer.span("work", self._parent) as span:
                yield self._below(span)
        finally:
            self._metrics.in_flight.dec()

    def _below(self, span: Span) -> tuple[Header, ...]:
        trace = span.traceparent()
        return self._headers if trace is None else (*self._headers, (_TRACEPARENT, trace))
