"""The worker's own metrics; names, labels and buckets are written here only."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from conch_kit.metric_families import CounterFamily
from conch_kit.metrics import outcomes

_ROW_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class EmbedWorkerMetrics:
    """The collectors of one worker process."""

    requests: CounterFamily
    rows: Counter
    tokens: Counter
    padding: Counter
    batch_rows: Histogram

    @classmethod
    def register(cls, registry: CollectorRegistry) -> "EmbedWorkerMetrics":
        """Make the collectors in a registry."""
        return cls(
            requests=outcomes("conch_embed_worker_requests", registry),
            rows=Counter("conch_embed_worker_rows", "Texts and pairs that engines computed.", registry=registry),
            tokens=Counter("conch_embed_worker_tokens", "Their tokens.", registry=registry),
            padding=Counter("conch_embed_worker_padding", "Tokens of padding in their batches.", registry=registry),
            batch_rows=Histogram(
                "conch_embed_worker_batch_rows",
                "Rows in one call of an engine.",
                buckets=_ROW_BUCKETS,
                registry=registry,
            ),
        )

    def batch(self, *, rows: int, tokens: int, width: int) -> None:
        """Record one computed batch."""
        self.batch_rows.observe(rows)
        self.rows.inc(rows)
        self.tokens.inc(tokens)
        self.padding.inc(rows * width - tokens)
