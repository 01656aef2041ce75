"""What the gateway serves beside inference and stored answers: models, health, version, load."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version

from conch_contracts.openai.model_list import EngineState, Modality, Model, ModelList, ModelPermission
from conch_contracts.records import ModelKind, Profile, Route
from conch_gateway.http.paths import Answer, Endpoint, PathRequest
from conch_gateway.requests.model_lookup import not_found
from conch_gateway.telemetry.load import Load
from conch_kit.errors import Unavailable
from conch_kit.json_bytes import json_bytes
from conch_kit.registry.snapshot import Snapshot

VERSION = version("conch-gateway")
_WRITERS = (ModelKind.LLM, ModelKind.TRANSCRIPTION)
DENGLIN_OWNER = "openai_api"


def model_endpoints(
    snapshot: Callable[[], Snapshot | None], reachable: Callable[[ModelKind], bool], *, owned_by: str
) -> Mapping[tuple[str, str], Endpoint]:
    """Return what tells of models, by method and path; those of a kind that is not `reachable` yet are not listed."""

    def current() -> Snapshot:
        known = snapshot()
        if known is None:
            raise Unavailable("The models are not known yet.", code="model_not_ready", retry_after_s=1)
        return known

    async def list_models(request: PathRequest) -> Answer:
        known = current()
        names = {name: route for name, route in known.by_name.items() if reachable(route.kind)}
        ordered = sorted(names.items(), key=_order)
        models = [model_of(name, route, owned_by, _state(route, known)) for name, route in ordered]
        first, last = (models[0].id, models[-1].id) if models else (None, None)
        return _typed(ModelList(data=models, first_id=first, last_id=last))

    async def get_model(request: PathRequest) -> Answer:
        name = request.parts["name"]
        known = current()
        route = known.by_name.get(name)
        if route is None:
            raise not_found(name)
        if not reachable(route.kind):
            raise Unavailable("This model's services have not started yet.", code="model_not_ready", retry_after_s=1)
        return _typed(model_of(name, route, owned_by, _state(route, known)))

    return {("GET", "/v1/models"): list_models, ("GET", "/v1/models/{name:path}"): get_model}


def health_endpoints(not_ready: Callable[[], str | None], load: Load) -> Mapping[tuple[str, str], Endpoint]:
    """Return what tells of this process, by method and path; `not_ready` gives why no requests should come."""

    async def health(request: PathRequest) -> Answer:
        return Answer(json_bytes({"status": "ok"}))

    async def ready(request: PathRequest) -> Answer:
        reason = not_ready()
        return Answer(json_bytes({"status": reason or "ok"}), status=503 if reason else 200)

    async def show_version(request: PathRequest) -> Answer:
        return Answer(json_bytes({"version": VERSION}))

    async def show_load(request: PathRequest) -> Answer:
        return Answer(json_bytes({"server_load": load.requests}))

    return {
        ("GET", "/"): health,
        ("GET", "/health"): health,
        ("GET", "/ping"): health,
        ("GET", "/health/ready"): ready,
        ("GET", "/version"): show_version,
        ("GET", "/load"): show_load,
    }


def model_of(name: str, route: Route, owned_by: str, state: EngineState) -> Model:
    """Return what clients see of one served name."""
    permission = ModelPermission(id=f"modelperm-{name}", created=route.created)
    return Model(
        id=name,
        created=route.created,
        owned_by=DENGLIN_OWNER if route.profile is Profile.DENGLIN else owned_by,
        root=route.served_names[0],
        max_model_len=route.max_model_len,
        permission=[permission],
        display_name=name,
        created_at=datetime.fromtimestamp(route.created, UTC).isoformat(),
        max_input_tokens=route.max_model_len,
        max_tokens=route.max_model_len if route.kind in _WRITERS else None,
        input_modalities=_modalities(route),
        state=state,
    )


def _state(route: Route, snapshot: Snapshot) -> EngineState:
    """Return what a request would find; a model without an engine is listed, since a 503 says more than a 404."""
    if snapshot.engines.get(route.model_id):
        return "ready"
    return "resting" if route.wakes and route.start_failed is None else "not_ready"


def _modalities(route: Route) -> list[Modality]:
    if route.kind is ModelKind.TRANSCRIPTION:
        return ["audio"]
    return ["text"] if route.pictures is None else ["text", "image"]


def _order(named: tuple[str, Route]) -> tuple[bool, bool, float, str, str]:
    """Return what names are listed by: many clients ask the first one, so it is the model that answers chats."""
    name, route = named
    return not route.default, route.kind is not ModelKind.LLM, route.created, route.model_id, name


def _typed(value: Model | ModelList) -> Answer:
    return Answer(value.model_dump_json().encode())
