"""What the gateway serves beside inference and stored answers: models, health, version, load."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from pydantic import Field

from conch_contracts.openai.model_list import EngineState, Modality, Model, ModelList, ModelPermission
from conch_contracts.records import ModelKind, Profile, Route
from conch_gateway.errors.bad_request import invalid
from conch_gateway.http.paths import Answer, Endpoint, PathRequest
from conch_gateway.http.query import Query, read_query
from conch_gateway.requests.model_lookup import not_found
from conch_gateway.telemetry.load import Load
from conch_kit.errors import Unavailable
from conch_kit.json_bytes import json_bytes
from conch_kit.registry.snapshot import Snapshot

VERSION = version("conch-gateway")
_WRITERS = (ModelKind.LLM, ModelKind.TRANSCRIPTION)
DENGLIN_OWNER = "openai_api"


class ModelsQuery(Query):
    """Which of the models, as Anthropic's clients ask; all where nothing is said, as OpenAI's expect."""

    limit: int | None = Field(None, ge=1, le=1000)
    after_id: str | None = None
    before_id: str | None = None


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
        return _typed(_page(models, read_query(ModelsQuery, request.query)))

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


def _page(models: Sequence[Model], asked: ModelsQuery) -> ModelList:
    """Return the models that were asked for; raises InvalidRequest for a name that none has, and for two."""
    if asked.after_id is not None and asked.before_id is not None:
        raise invalid("before_id", "expected 'after_id' or 'before_id', found both")
    limit = asked.limit or len(models)
    if asked.before_id is not None:
        until = _place(models, asked.before_id, "before_id")
        start = max(0, until - limit)
        shown, more = models[start:until], start > 0
    else:
        start = 0 if asked.after_id is None else _place(models, asked.after_id, "after_id") + 1
        shown, more = models[start : start + limit], start + limit < len(models)
    first, last = (shown[0].id, shown[-1].id) if shown else (None, None)
    return ModelList(data=list(shown), has_more=more, first_id=first, last_id=last)


def _place(models: Sequence[Model], name: str, param: str) -> int:
    for place, model in enumerate(models):
        if model.id == name:
            return place
    raise invalid(param, f"expected the id of a model, found '{name[:128]}'")


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
