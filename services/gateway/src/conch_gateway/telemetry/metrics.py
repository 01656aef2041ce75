"""Everything the gateway measures: names, labels and buckets.

Labels come from closed sets: endpoint, model that exists, status, outcome. On the token path the histograms are bound
once per model and only observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry

from conch_gateway.http.exchange import Exchange
from conch_kit.metric_families import (
    CounterFamily,
    CounterValue,
    GaugeFamily,
    GaugeValue,
    HistogramFamily,
    HistogramValue,
)

DURATION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
GAP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1, 5)


class HoldEnd(StrEnum):
    """How the wait of a request for an engine that starts has ended."""

    SERVED = "served"
    """It has an engine."""
    EXPIRED = "expired"
    """It was held as long as it may be, and is told when to come again."""
    FAILED = "failed"
    """No engine of its model starts, or something else is at fault."""
    DELETED = "deleted"
    """Its model was deleted meanwhile."""
    REFUSED = "refused"
    """As much is held as may be, or a more urgent request has taken its place."""
    GONE = "gone"
    """The request ended meanwhile: its client hung up or read nothing, its time was over, or the gateway ended."""


class WakeCause(StrEnum):
    """What a model without an engine was asked to start by."""

    REQUEST = "request"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class ModelMetrics:
    """Collectors of one model, with their labels bound."""

    first_token: HistogramValue
    gap: HistogramValue
    queue_wait: HistogramValue
    waiting: GaugeValue
    hold: HistogramValue
    held: GaugeValue
    hold_ends: Mapping[HoldEnd, CounterValue]
    wakes: Mapping[WakeCause, CounterValue]
    in_flight: GaugeValue
    missing_usage: CounterValue
    prompt_tokens: CounterValue
    completion_tokens: CounterValue
    audio_seconds: CounterValue


class GatewayMetrics:
    """The collectors of one gateway."""

    def __init__(self, registry: CollectorRegistry) -> None:
        model = ("model",)
        self._requests = CounterFamily(
            "conch_gateway_requests_total",
            "Requests by what became of them.",
            ("endpoint", "model", "status", "outcome"),
            registry,
        )
        self._duration = HistogramFamily(
            "conch_gateway_request_duration_seconds",
            "From the head of a request to the end of its answer.",
            ("endpoint", "model"),
            DURATION_BUCKETS,
            registry,
        )
        self._first_token = HistogramFamily(
            "conch_gateway_time_to_first_token_seconds",
            "From the head of a streamed request to its first frame.",
            model,
            DURATION_BUCKETS,
            registry,
        )
        self._gap = HistogramFamily(
            "conch_gateway_inter_token_seconds", "Between two frames of a stream.", model, GAP_BUCKETS, registry
        )
        self._queue_wait = HistogramFamily(
            "conch_gateway_queue_wait_seconds",
            "Until an engine had a free slot.",
            model,
            DURATION_BUCKETS,
            registry,
        )
        self._waiting = GaugeFamily(
            "conch_gateway_waiting", "Requests that wait for an engine's slot.", model, registry
        )
        self._hold = HistogramFamily(
            "conch_gateway_hold_seconds",
            "Until an engine that had to start took a request, or the request gave up.",
            model,
            DURATION_BUCKETS,
            registry,
        )
        self._held = GaugeFamily("conch_gateway_held", "Requests that wait for an engine to start.", model, registry)
        self._hold_ends = CounterFamily(
            "conch_gateway_holds_total",
            "Requests that waited for an engine to start, by how the wait ended.",
            ("model", "outcome"),
            registry,
        )
        self._wakes = CounterFamily(
            "conch_gateway_wakes_total",
            "How often a model without an engine was asked for.",
            ("model", "cause"),
            registry,
        )
        self._in_flight = GaugeFamily(
            "conch_gateway_in_flight", "Requests that have a slot of an engine.", model, registry
        )
        self._tokens = CounterFamily(
            "conch_gateway_tokens_total",
            "Tokens of prompts that engines were asked about, and of answers as workers report them.",
            ("model", "kind"),
            registry,
        )
        self._audio = CounterFamily(
            "conch_gateway_audio_seconds_total", "Seconds of sound that workers transcribed.", model, registry
        )
        self.unknown_fields = CounterFamily(
            "conch_gateway_unknown_fields_total", "Request fields that were ignored.", (), registry
        ).labels()
        self.retries = CounterFamily(
            "conch_gateway_retries_total", "Requests sent again before their first byte.", ("peer",), registry
        )
        self.responses_lost = CounterFamily(
            "conch_gateway_responses_lost_total", "Responses that could not be kept.", (), registry
        ).labels()
        self._missing_usage = CounterFamily(
            "conch_gateway_missing_usage_total", "Complete answers without a readable usage.", model, registry
        )
        self._models: dict[str, ModelMetrics] = {}
        self._ends: dict[tuple[str, str, int, str], CounterValue] = {}
        self._durations: dict[tuple[str, str], HistogramValue] = {}

    def of(self, model: str) -> ModelMetrics:
        """Return the bound collectors of a model that exists."""
        bound = self._models.get(model)
        if bound is None:
            bound = self._models[model] = ModelMetrics(
                first_token=self._first_token.labels(model),
                gap=self._gap.labels(model),
                queue_wait=self._queue_wait.labels(model),
                waiting=self._waiting.labels(model),
                hold=self._hold.labels(model),
                held=self._held.labels(model),
                hold_ends={end: self._hold_ends.labels(model, end) for end in HoldEnd},
                wakes={cause: self._wakes.labels(model, cause) for cause in WakeCause},
                in_flight=self._in_flight.labels(model),
                missing_usage=self._missing_usage.labels(model),
                prompt_tokens=self._tokens.labels(model, "prompt"),
                completion_tokens=self._tokens.labels(model, "completion"),
                audio_seconds=self._audio.labels(model),
            )
        return bound

    def finish(self, exchange: Exchange, *, duration_s: float) -> None:
        """Count a request that has ended."""
        end = (exchange.endpoint, exchange.model, exchange.status, exchange.outcome)
        counter = self._ends.get(end)
        if counter is None:
            counter = self._ends[end] = self._requests.labels(*map(str, end))
        counter.inc()
        histogram = self._durations.get(end[:2])
        if histogram is None:
            histogram = self._durations[end[:2]] = self._duration.labels(*end[:2])
        histogram.observe(duration_s)
        if exchange.model and (exchange.prompt_tokens or exchange.completion_tokens):
            model = self.of(exchange.model)
            model.prompt_tokens.inc(exchange.prompt_tokens)
            model.completion_tokens.inc(exchange.completion_tokens)
        if exchange.audio_s:
            self.of(exchange.model).audio_seconds.inc(exchange.audio_s)
