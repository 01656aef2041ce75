"""The operator's metrics."""

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from conch_contracts.conditions import ConditionStatus, ConditionType
from conch_contracts.names import PoolId
from conch_kit.metrics import DURATION_BUCKETS
from conch_operator.reconcile.status import Statuses

_REPEATED = (ConditionType.RECONCILING, ConditionType.STALLED)
_LOAD_RESULTS = _LOADED, _FAILED = "loaded", "failed"

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


@dataclass(slots=True)
class ScalingMetrics:
    """What is measured of the models whose number of engines is decided here."""

    scalings: Counter
    wish_to_call: Histogram
    wish_to_ready: Histogram
    wanted: Gauge
    ready: Gauge
    unknown: Gauge
    _shown: dict[str, EnginesOfModel] = field(default_factory=dict, init=False)

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

    def show(self, models: Sequence[EnginesOfModel]) -> None:
        """Show these models, and no others any more."""
        shown = {one.model: one for one in models}
        for model in self._shown.keys() - shown.keys():
            self.wanted.remove(model)
            self.ready.remove(model)
        for model, one in shown.items():
            if one != self._shown.get(model):
                self.wanted.labels(model).set(one.wanted)
                self.ready.labels(model).set(one.ready)
        self._shown = shown
        self.unknown.set(sum(not one.known for one in models))


@dataclass(frozen=True, slots=True)
class PoolInUse:
    """How much of an EnginePool's room is taken."""

    residents: int
    """Models that take room, also those that are being loaded or are about to go."""
    memory_bytes: int


class PoolMetrics:
    """What is measured of EnginePools; of one that has gone nothing is shown any more."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Make the collectors."""
        self._residents = Gauge(
            "conch_operator_pool_residents", "Models that take room in a pool.", ["pool"], registry=registry
        )
        self._memory = Gauge(
            "conch_operator_pool_memory_bytes", "Memory that models take in a pool.", ["pool"], registry=registry
        )
        self._loads = Counter(
            "conch_operator_pool_loads_total",
            "Loads of models of a pool, by how they ended.",
            ["pool", "result"],
            registry=registry,
        )
        self._unloads = Counter(
            "conch_operator_pool_unloads_total",
            "Models of a pool that had to go since their room was needed.",
            ["pool"],
            registry=registry,
        )
        self._wish_to_ready = Histogram(
            "conch_operator_pool_wish_to_ready_seconds",
            "From the first request for a model that is not loaded until it answers.",
            ["pool"],
            buckets=WISH_BUCKETS,
            registry=registry,
        )
        self._shown: dict[PoolId, PoolInUse] = {}

    def show(self, pools: Mapping[PoolId, PoolInUse]) -> None:
        """Show these pools, and no others any more; what was counted of a pool begins at 0."""
        for gone in self._shown.keys() - pools.keys():
            for family in (self._residents, self._memory, self._unloads, self._wish_to_ready):
                family.remove(gone)
            for result in _LOAD_RESULTS:
                self._loads.remove(gone, result)
        for pool, use in pools.items():
            if pool not in self._shown:  # an alert sees a first failure only where there was a 0 before it
                self._unloads.labels(pool)
                self._wish_to_ready.labels(pool)
                for result in _LOAD_RESULTS:
                    self._loads.labels(pool, result)
            if use != self._shown.get(pool):
                self._residents.labels(pool).set(use.residents)
                self._memory.labels(pool).set(use.memory_bytes)
        self._shown = dict(pools)

    def loaded(self, pool: PoolId, wished_s: float | None) -> None:
        """Count a load, which was wished for so long ago; None where nobody had asked."""
        if pool in self._shown:
            self._loads.labels(pool, _LOADED).inc()
            if wished_s is not None:
                self._wish_to_ready.labels(pool).observe(wished_s)

    def failed(self, pool: PoolId) -> None:
        """Count a load in vain."""
        if pool in self._shown:
            self._loads.labels(pool, _FAILED).inc()

    def unloaded(self, pool: PoolId) -> None:
        """Count a model that has to go for others."""
        if pool in self._shown:
            self._unloads.labels(pool).inc()


@dataclass(frozen=True, slots=True)
class OperatorMetrics:
    """All collectors, on one registry."""

    reconciles: Counter
    duration: Histogram
    models: Gauge
    leading: Gauge
    waiting: Gauge
    scaling: ScalingMetrics
    pools: PoolMetrics

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
            PoolMetrics(registry),
        )

    def count(self, statuses: Statuses) -> None:
        """Count models by condition; Progressing says what Reconciling and Stalled repeat for others."""
        numbers = Tally((one.type, one.status) for said in statuses.values() for one in said.conditions)
        for kind in (kind for kind in ConditionType if kind not in _REPEATED):
            for status in ConditionStatus:
                self.models.labels(kind, status).set(numbers[kind, status])
