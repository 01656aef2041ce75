"""`POST /conch/v1/models/{name}/wake`: asks for a model to be awake before there is a request for it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from conch_contracts.names import ModelId
from conch_contracts.openai.model_wake import ModelState, ModelWake, WakeRequest
from conch_contracts.records import Route
from conch_gateway.http import body
from conch_gateway.http.paths import Answer, Endpoint, PathRequest
from conch_gateway.placement.admission import Admission
from conch_gateway.requests.model_lookup import not_found
from conch_gateway.requests.validation import typed
from conch_gateway.telemetry.metrics import GatewayMetrics, WakeCause
from conch_kit.errors import InvalidRequest, Unavailable
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.snapshot import Snapshot

PATH = "/conch/v1/models/{name:path}/wake"
MAX_BODY_BYTES = 16 * 1024

Wake = Callable[[ModelId, float], Awaitable[float]]
"""Leaves word that a model shall be awake for so many seconds; returns until when, in Unix seconds."""


@dataclass(frozen=True, slots=True)
class WakeEndpoint:
    """Serves the path."""

    snapshot: Callable[[], Snapshot | None]
    admission: Admission
    metrics: GatewayMetrics
    wake: Wake

    def endpoints(self) -> Mapping[tuple[str, str], Endpoint]:
        """Return the endpoint, by method and path."""
        return {("POST", PATH): self._serve}

    async def _serve(self, request: PathRequest) -> Answer:
        exchange, name = request.exchange, request.parts["name"]
        exchange.endpoint = "wake"
        body.check_media_type(exchange.headers)
        raw = await body.read(request.receive, exchange.headers, limit=MAX_BODY_BYTES)
        asked, unknown_fields = typed(WakeRequest, body.parse(raw) if raw else {})
        route = self._route(name)
        exchange.model = route.served_names[0]
        self.metrics.unknown_fields.inc(unknown_fields)
        try:
            until = await self.wake(route.model_id, asked.for_s + self._start_s(route))
        except (RegistryUnavailable, RegistryError):
            raise Unavailable("Redis does not take the wish.", code="store_unavailable", retry_after_s=2) from None
        self.metrics.of(exchange.model).wakes[WakeCause.CALL].inc()
        self.admission.wish(route.model_id)
        return Answer(self._told(route, name, int(until)).model_dump_json().encode(), status=202)

    def _start_s(self, route: Route) -> float:
        """Return how long the model is not awake yet, as starts usually take."""
        return 0.0 if self.admission.has_engine(route.model_id) else route.start_s or 0.0

    def _route(self, name: str) -> Route:
        snapshot = self.snapshot()
        if snapshot is None:
            raise Unavailable("The models are not known yet.", code="model_not_ready", retry_after_s=1)
        route = snapshot.by_name.get(name)
        if route is None:
            raise not_found(name)
        if not route.wakes:
            raise InvalidRequest(
                f"The model '{name}' starts no engine when it is asked, or not yet, so it cannot be woken.",
                param="model",
                code="unsupported_model",
            )
        return route

    def _told(self, route: Route, name: str, until: int) -> ModelWake:
        if self.admission.has_engine(route.model_id):
            return ModelWake(id=name, state=ModelState.READY, ready_in_s=0.0, awake_until=until)
        state = ModelState.STARTING if route.start_failed is None else ModelState.FAILED
        left_s = self.admission.ready_in_s(route.model_id) if state is ModelState.STARTING else None
        ready_in_s = None if left_s is None else round(left_s, 1)
        return ModelWake(id=name, state=state, ready_in_s=ready_in_s, awake_until=until, reason=route.start_failed)
