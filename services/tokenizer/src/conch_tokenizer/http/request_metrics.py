"""The metrics of requests, whichever way they came: added up at each scrape."""

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from conch_kit.metrics import LATENCY_BUCKETS
from conch_tokenizer.children.work_board import COUNTED, OUTCOMES, WorkBoard


class RequestMetrics(Collector):
    """Adds up, at each scrape, what the service and its children have counted on the work board."""

    def __init__(self, board: WorkBoard) -> None:
        self._rows = board.rows()

    def collect(self) -> Iterator[Metric]:
        """Give the metrics of requests."""
        requests = CounterMetricFamily(
            "conch_tokenizer_requests",
            "Requests by operation and outcome (ok, refused, unavailable, failed).",
            labels=["operation", "outcome"],
        )
        seconds = HistogramMetricFamily(
            "conch_tokenizer_request_seconds", "Time from the complete body to the answer.", labels=["operation"]
        )
        bounds = [*(str(bound) for bound in LATENCY_BUCKETS), "+Inf"]
        for operation in COUNTED:
            counts = [sum(column) for column in zip(*(row.counts(operation) for row in self._rows), strict=True)]
            outcomes, (total_s, *buckets) = counts[: len(OUTCOMES)], counts[len(OUTCOMES) :]
            if not any(outcomes):
                continue
            name = operation.name.lower()
            for outcome, count in zip(OUTCOMES, outcomes, strict=True):
                if count:
                    requests.add_metric([name, outcome], count)
            seconds.add_metric([name], list(zip(bounds, accumulate(buckets), strict=True)), total_s)
        yield requests
        yield seconds
        yield GaugeMetricFamily(
            "conch_tokenizer_in_flight",
            "Requests that wait for a child or are in one.",
            sum(row.in_flight for row in self._rows),
        )
