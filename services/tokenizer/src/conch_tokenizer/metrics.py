"""The tokenizer's own metrics: names, labels and buckets; those of requests are in `http.request_metrics`."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from conch_kit.metrics import LATENCY_BUCKETS


class TokenizerMetrics:
    """The collectors of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.queue_seconds = Histogram(
            "conch_tokenizer_queue_seconds",
            "Time that a request waited for a child.",
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.children_lost = Counter(
            "conch_tokenizer_children_lost_total", "Children that ended or were killed.", registry=registry
        )
        self.bundles_fetched = Counter(
            "conch_tokenizer_bundles_fetched_total", "Tokenizer bundles taken from the registry.", registry=registry
        )
