"""The operator's metrics."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from conch_contracts.conditions import ConditionStatus, ConditionType
from conch_kit.metrics import DURATION_BUCKETS
from conch_operator.reconcile.status import Statuses

_REPEATED = (ConditionType.RECONCILING, ConditionType.STALLED)


@dataclass(frozen=True, slots=True)
class OperatorMetrics:
    """All collectors, on one registry."""

    reconciles: Counter
    duration: Histogram
    models: Gauge
    leading: Gauge
    waiting: Gauge

    @classmethod
    def on(cls, registry: CollectorRegistry) -> "OperatorMetrics":
        """Make the collectors."""
        return cls(
            Counter("conch_operator_reconciles_total", "Rounds, by how they ended.", ["result"], registry=registry),
            Histogram(
                "conch_operator_reconcile_duration_seconds",
                "How long a round took.",
                buckets=DURATION_BUCKETS,
                registry=registry,
            ),
            Gauge(
                "conch_operator_models",
                "Models, by condition and its status.",
                ["condition", "status"],
                registry=registry,
            ),
            Gauge("conch_operator_leading", "Whether this operator holds the Lease.", registry=registry),
            Gauge("conch_operator_changes_waiting", "Changes that the next round will see to.", registry=registry),
        )

    def count(self, statuses: Statuses) -> None:
        """Count models by condition; Progressing says what Reconciling and Stalled repeat for others."""
        for kind in (kind for kind in ConditionType if kind not in _REPEATED):
            for status in ConditionStatus:
                found = (one.condition(kind) for one in statuses.values())
                number = sum(condition is not None and condition.status is status for condition in found)
                self.models.labels(kind, status).set(number)
