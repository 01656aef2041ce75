"""What a scrape gets of them is what prometheus_client's own give, but for the times of creation."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from conch_kit.metric_families import CounterFamily, GaugeFamily, HistogramFamily

BUCKETS = (0.001, 0.5, 1, 600)


def text(registry: CollectorRegistry) -> str:
    return re.sub(r"(?m)^.*_created.*\n", "", generate_latest(registry).decode())


@given(st.lists(st.tuples(st.sampled_from("ab"), st.one_of(st.sampled_from(BUCKETS), st.floats(0, 1e6)))))
def test_a_scrape_is_the_same(events: Sequence[tuple[str, float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    counters = CounterFamily("x_total", "Said.", ("k",), ours)
    gauges = GaugeFamily("y", "Said.", ("k",), ours)
    histograms = HistogramFamily("z_seconds", "Said.", ("k",), BUCKETS, ours)
    their_counters = Counter("x_total", "Said.", ("k",), registry=theirs)
    their_gauges = Gauge("y", "Said.", ("k",), registry=theirs)
    their_histograms = Histogram("z_seconds", "Said.", ("k",), buckets=BUCKETS, registry=theirs)
    for label, value in events:
        for counter, gauge, histogram in (
            (counters, gauges, histograms),
            (their_counters, their_gauges, their_histograms),
        ):
            counter.labels(label).inc(value)
            gauge.labels(label).inc()
            gauge.labels(label).dec(value)
            histogram.labels(label).observe(value)
    assert text(ours) == text(theirs)


def test_one_without_labels_is_there_from_the_beginning() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    CounterFamily("x", "Said.", (), ours).labels()
    Counter("x", "Said.", registry=theirs)
    assert text(ours) == text(theirs)
    assert "x_total 0.0" in text(ours)


def test_the_labels_are_those_that_the_family_has() -> None:
    family = GaugeFamily("y", "Said.", ("k", "l"), CollectorRegistry())
    family.labels("a", "b").set(3)
    with pytest.raises(ValueError, match="2 labels of y"):
        family.labels("a")
