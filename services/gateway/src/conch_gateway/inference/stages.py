"""The stages of one inference request, each counted and traced apart: tokenizing, waiting for an engine, working.

A wait for an engine to start is another stage than one for a slot of an engine that there is.

Waiting and working have spans of their own because their cures differ: more engines for the one, faster ones for the
other. Whoever is called gets the headers under which its own spans continue the trace.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType

from conch_contracts.headers import TRACEPARENT
from conch_gateway.telemetry.metrics import HoldEnd, ModelMetrics
from conch_gateway.upstream.port import Header
from conch_kit.metric_families import CounterValue, GaugeValue, HistogramValue
from conch_kit.tracing import Span, Tracer

_TRACEPARENT = TRACEPARENT.encode()


class Stage:
    """One stage as a context, which gives the headers for whoever is called in it."""

    __slots__ = ("_began", "_clock", "_duration", "_end_of", "_ends", "_headers", "_running", "_span")

    def __init__(
        self,
        span: AbstractContextManager[Span],
        headers: tuple[Header, ...],
        running: GaugeValue | None,
        duration: HistogramValue | None,
        clock: Callable[[], float],
        ends: Mapping[HoldEnd, CounterValue] | None = None,
        end_of: Callable[[BaseException | None], HoldEnd] | None = None,
    ) -> None:
        self._span = span
        self._headers = headers
        self._running = running
        self._duration = duration
        self._clock = clock
        self._ends = ends
        self._end_of = end_of
        self._began = 0.0

    def __enter__(self) -> tuple[Header, ...]:
        if self._running is not None:
            self._running.inc()
        if self._duration is not None:
            self._began = self._clock()
        trace = self._span.__enter__().traceparent()
        return self._headers if trace is None else (*self._headers, (_TRACEPARENT, trace))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            self._running.dec()
        if self._duration is not None:
            self._duration.observe(self._clock() - self._began)
        if self._ends is not None and self._end_of is not None:
            self._ends[self._end_of(error)].inc()
        self._span.__exit__(kind, error, trace)


class Stages:
    """The stages of one request."""

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

    def tokenizing(self) -> Stage:
        """Surround the call of the tokenizer."""
        return self._stage("tokenize", None, None)

    def waiting(self) -> Stage:
        """Surround the wait for a free engine."""
        return self._stage("wait", self._metrics.waiting, self._metrics.queue_wait)

    def holding(self, end_of: Callable[[BaseException | None], HoldEnd]) -> Stage:
        """Surround the wait for an engine to start; `end_of` tells how it has ended, by what it raised."""
        return self._stage("hold", self._metrics.held, self._metrics.hold, self._metrics.hold_ends, end_of)

    def working(self) -> Stage:
        """Surround the call of a worker, until its answer is delivered."""
        return self._stage("work", self._metrics.in_flight, None)

    def _stage(
        self,
        name: str,
        running: GaugeValue | None,
        duration: HistogramValue | None,
        ends: Mapping[HoldEnd, CounterValue] | None = None,
        end_of: Callable[[BaseException | None], HoldEnd] | None = None,
    ) -> Stage:
        span = self._tracer.span(name, self._parent)
        return Stage(span, self._headers, running, duration, self._clock, ends, end_of)
