"""The operator's metrics."""

from collections import Counter as Tally
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from conch_contracts.conditions import ConditionStatus, ConditionType
from conch_kit.metrics import DURATION_BUCKETS
from conch_operator.reconcile.status import Statuses

_REPEATED = (ConditionType.RECONCILING, ConditionType.STALLED)


WISH_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)


@dataclass(frozen=True, slots=True)
class EnginesOfModel:
    """How many engines a model that scales has, and is to have."""

    model: str
    """The first of its served names, as in the gateway's metrics."""
    wanted: int
    ready: int
    known: bool
    """Whether all gateways have said what there is to do."""


@dataclass(frozen=True, slots=True)
class ScalingMetrics:
    """What is measured of the models whose number of engines is decided here."""

    scalings: Counter
    wish_to_call: Histogram
    wish_to_ready: Histogram
    wanted: Gauge
    ready: Gauge
    unknown: Gauge

    @classmethod
    def on(cls, registry: CollectorRegistry) -> "ScalingMetrics":
        """Make the collectors."""
        return cls(
            Counter(
                "conch_operator_scalings_total",
                "Changes of the number of engines of a model, by why.",
                ["direction", "reason"],
                registry=registry,
            ),
            Histogram(
                "conch_operator_wish_to_scale_seconds",
                "From the first request for a model without an engine to the call that starts one.",
                buckets=WISH_BUCKETS,
                registry=registry,
            ),
            Histogram(
                "conch_operator_wish_to_ready_seconds",
                "From the first request for a model without an engine until one answers.",
                buckets=WISH_BUCKETS,
                registry=registry,
            ),
            Gauge("conch_operator_engines_wanted", "Engines that a model is to have.", ["model"], registry=registry),
            Gauge("conch_operator_engines_ready", "Engines of a model that answer.", ["model"], registry=registry),
            Gauge(
                "conch_operator_scaling_unknown",
                "Models of which no engine is taken away, since not all gateways have said what there is to do.",
                registry=registry,
            ),
        )

    def turned(self, before: int, now: int, reason: str) -> None:
        """Count a change of a model's number of engines."""
        self.scalings.labels("up" if now > before else "down", reason).inc()

    def show(self, models: Iterable[EnginesOfModel]) -> None:
        """Show these models, and no others any more."""
        self.wanted.clear()
        self.ready.clear()
        unknown = 0
        for one in models:
            self.wanted.labels(one.model).set(one.wanted)
            self.ready.labels(one.model).set(one.ready)
            unknown += not one.known
        self.unknown.set(unknown)


@dataclass(frozen=True, slots=True)
class OperatorMetrics:
    """All collectors, on one registry."""

    reconciles: Counter
    duration: Histogram
    models: Gauge
    leading: Gauge
    waiting: Gauge
    scaling: ScalingMetrics

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
            ScalingMetrics.on(registry),
        )

    def count(self, statuses: Statuses) -> None:
        """Count models by condition; Progressing says what Reconciling and Stalled repeat for others."""
        numbers = Tally((one.type, one.status) for said in statuses.values() for one in said.conditions)
        for kind in (kind for kind in ConditionType if kind not in _REPEATED):
            for status in ConditionStatus:
                self.models.labels(kind, status).set(numbers[kind, status])
