from collections.abc import Iterator
from typing import Any

import pytest
import requests
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from conch_kit.tracing import OtlpTracer, tracer

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def real(exporter: InMemorySpanExporter) -> Iterator[OtlpTracer]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    made = OtlpTracer(provider)
    yield made
    made.close()


@pytest.mark.parametrize("parent", [None, PARENT])
def test_without_an_endpoint_the_callers_context_is_passed_on(parent: bytes | None) -> None:
    with tracer("test", None).span("work", parent) as span:
        span.set("model", "a")
        assert span.traceparent() == parent


def test_a_span_is_a_child_of_the_one_in_the_header(real: OtlpTracer, exporter: InMemorySpanExporter) -> None:
    with real.span("work", PARENT) as span:
        span.set("model", "a")
        out = span.traceparent()
    assert out is not None
    assert out.split(b"-")[1] == PARENT.split(b"-")[1]
    assert out != PARENT
    (finished,) = exporter.get_finished_spans()
    assert finished.name == "work"
    assert finished.attributes == {"model": "a"}
    assert finished.parent is not None
    assert f"{finished.parent.span_id:016x}" == "b7ad6b7169203331"


@pytest.mark.parametrize("parent", [None, b"garbage", b"\xff"])
def test_a_span_without_a_usable_header_begins_a_trace(
    real: OtlpTracer, exporter: InMemorySpanExporter, parent: bytes | None
) -> None:
    with real.span("work", parent) as span:
        assert span.traceparent() is not None
    assert exporter.get_finished_spans()[0].parent is None


def test_an_endpoint_that_hangs_holds_an_end_up_for_two_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    patience: list[float] = []

    def hangs(session: requests.Session, request: object, *, timeout: float, **_: Any) -> requests.Response:
        patience.append(timeout)
        raise requests.Timeout

    monkeypatch.setattr(requests.Session, "send", hangs)
    made = tracer("test", "http://127.0.0.1:9")
    with made.span("work"):
        pass
    made.close()
    assert patience
    assert max(patience) <= 2
