"""Traces over OTLP when an endpoint is set; otherwise spans cost next to nothing and pass the caller's context on.

The OpenTelemetry SDK is imported only when it is used.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from conch_contracts.headers import TRACEPARENT

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


class Span(Protocol):
    """One piece of work."""

    def set(self, key: str, value: str | int | float | bool) -> None:
        """Add a fact about the work."""
        ...

    def traceparent(self) -> bytes | None:
        """Return the W3C header that makes another process's span a child of this one."""
        ...


class Tracer(Protocol):
    """Makes spans."""

    def span(self, name: str, traceparent: bytes | None = None) -> AbstractContextManager[Span]:
        """Time the body as one span, below the one that the header names."""
        ...

    def close(self) -> None:
        """Send what is left; blocks for a few seconds at most."""
        ...


def tracer(service: str, endpoint: str | None) -> Tracer:
    """Return a tracer that sends to this endpoint, or one that does nothing."""
    if endpoint is None:
        return _NoTracer()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=2)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return OtlpTracer(provider)


@dataclass(frozen=True, slots=True)
class _NoSpan:
    incoming: bytes | None

    def set(self, key: str, value: str | int | float | bool) -> None:
        pass

    def traceparent(self) -> bytes | None:
        return self.incoming

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


_NO_SPAN = _NoSpan(None)


class _NoTracer:
    def span(self, name: str, traceparent: bytes | None = None) -> _NoSpan:
        return _NO_SPAN if traceparent is None else _NoSpan(traceparent)

    def close(self) -> None:
        pass


class OtlpTracer:
    """Makes real spans with an OpenTelemetry provider."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("conch")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, traceparent: bytes | None = None) -> Iterator[Span]:
        """Time the body as one span, below the one that the header names."""
        carrier = {} if traceparent is None else {TRACEPARENT: traceparent.decode("latin-1")}
        context = self._propagator.extract(carrier) if carrier else None
        with self._tracer.start_as_current_span(name, context) as current:
            out: dict[str, str] = {}
            self._propagator.inject(out)
            yield _OtlpSpan(current.set_attribute, out)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


class _SetAttribute(Protocol):
    def __call__(self, key: str, value: str | int | float | bool) -> None: ...


@dataclass(frozen=True, slots=True)
class _OtlpSpan:
    set_attribute: _SetAttribute
    carrier: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: str | int | float | bool) -> None:
        self.set_attribute(key, value)

    def traceparent(self) -> bytes | None:
        found = self.carrier.get(TRACEPARENT)
        return None if found is None else found.encode()
