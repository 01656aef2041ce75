"""The tokenizer's metrics: names, labels and buckets."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from conch_kit.metrics import LATENCY_BUCKETS


class TokenizerMetrics:
    """The collectors of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "conch_tokenizer_requests_total",
            "Requests by operation and outcome (ok, refused, unavailable, failed).",
            ["operation", "outcome"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "conch_tokenizer_request_seconds",
            "Time from the complete body to the answer.",
            ["operation"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.queue_seconds = Histogram(
            "conch_tokenizer_queue_seconds",
            "Time that a request waited for a child.",
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "conch_tokenizer_in_flight", "Requests that wait for a child or are in one.", registry=registry
        )
        self.children_lost = Counter(
            "conch_tokenizer_children_lost_total", "Children that ended or were killed.", registry=registry
        )
        self.bundles_fetched = Counter(
            "conch_tokenizer_bundles_fetched_total", "Tokenizer bundles taken from the registry.", registry=registry
        )
