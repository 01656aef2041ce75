"""The process's own metrics; names, labels and buckets are written here only."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from conch_kit.metric_families import CounterFamily
from conch_kit.metrics import LATENCY_BUCKETS, outcomes


@dataclass(frozen=True, slots=True)
class MediaMetrics:
    """The collectors of one media process."""

    requests: CounterFamily
    bytes: Counter
    duration: Histogram

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "MediaMetrics":
        """Make the collectors in a registry."""
        return cls(
            requests=outcomes("conch_media_requests", registry),
            bytes=Counter("conch_media_bytes", "Bytes of the pictures that were fetched.", registry=registry),
            duration=Histogram(
                "conch_media_fetch_duration_seconds",
                "How long it took to fetch a picture, or to find that it cannot be had.",
                buckets=LATENCY_BUCKETS,
                registry=registry,
            ),
        )
