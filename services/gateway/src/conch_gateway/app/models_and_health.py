"""What the gateway serves beside inference, on FastAPI: models, health, version, and the OpenAPI document.

The inference paths are in the document only: `Edge` serves them before a request gets here.
"""

from collections.abc import Callable
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from conch_contracts.openai.model_list import Model, ModelList, ModelPermission
from conch_contracts.records import ModelKind, Profile, Route
from conch_gateway.app.invocations import describe_invocations
from conch_gateway.encoders.openapi import describe_encoders
from conch_gateway.errors.bad_request import invalid
from conch_gateway.openapi.document import describe_inference, errors, serve_document
from conch_gateway.requests.model_lookup import not_found
from conch_gateway.responses.store import ResponseStore
from conch_gateway.responses.stored_endpoints import add_stored_responses
from conch_gateway.telemetry.load import Load
from conch_kit.errors import InternalError, MethodNotAllowed, NotFound, ServiceError, Unavailable
from conch_kit.registry.snapshot import Snapshot

VERSION = version("conch-gateway")
DENGLIN_OWNER = "openai_api"


def models_and_health_app(
    snapshot: Callable[[], Snapshot | None],
    not_ready: Callable[[], str | None],
    reachable: Callable[[ModelKind], bool],
    responses: ResponseStore,
    load: Load,
    *,
    owned_by: str,
    openapi: bool,
    keyed: bool,
) -> FastAPI:
    """Return the FastAPI application; `not_ready` gives the reason why no requests should come.

    Models of a kind that is not `reachable` yet are not listed. `keyed` says whether requests need an API key.
    """
    app = FastAPI(
        title="Conch",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.add_exception_handler(ServiceError, _on_service_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Exception, _on_bug)
    describe_inference(app)
    describe_encoders(app)
    describe_invocations(app)
    _add_models(app, snapshot, reachable, owned_by)
    add_stored_responses(app, responses)
    _add_health(app, not_ready, load)
    if openapi:
        serve_document(app, keyed=keyed)
    return app


def model_of(name: str, route: Route, owned_by: str) -> Model:
    """Return what clients see of one served name."""
    permission = ModelPermission(id=f"modelperm-{name}", created=route.created)
    return Model(
        id=name,
        created=route.created,
        owned_by=DENGLIN_OWNER if route.profile is Profile.DENGLIN else owned_by,
        root=route.served_names[0],
        max_model_len=route.max_model_len,
        permission=[permission],
    )


def _add_models(
    app: FastAPI, snapshot: Callable[[], Snapshot | None], reachable: Callable[[ModelKind], bool], owned_by: str
) -> None:
    def current() -> Snapshot:
        known = snapshot()
        if known is None:
            raise Unavailable("The models are not known yet.", code="model_not_ready", retry_after_s=1)
        return known

    @app.get("/v1/models", response_model=ModelList, responses=errors((401, 503)), tags=["models"])
    async def list_models() -> ModelList:
        """List every name that `model` may hold, the default model's first."""
        names = {name: route for name, route in current().by_name.items() if reachable(route.kind)}
        ordered = sorted(names.items(), key=_order)
        return ModelList(data=[model_of(name, route, owned_by) for name, route in ordered])

    @app.get("/v1/models/{name:path}", response_model=Model, responses=errors((401, 404, 503)), tags=["models"])
    async def get_model(name: str) -> Model:
        """Describe one model."""
        route = current().by_name.get(name)
        if route is None:
            raise not_found(name)
        if not reachable(route.kind):
            raise Unavailable("This model's services have not started yet.", code="model_not_ready", retry_after_s=1)
        return model_of(name, route, owned_by)


def _order(named: tuple[str, Route]) -> tuple[bool, bool, float, str, str]:
    """Return what names are listed by: many clients ask the first one, so it is the model that answers chats."""
    name, route = named
    return not route.default, route.kind is not ModelKind.LLM, route.created, route.model_id, name


def _add_health(app: FastAPI, not_ready: Callable[[], str | None], load: Load) -> None:
    async def health() -> dict[str, str]:
        """Say that the process lives."""
        return {"status": "ok"}

    async def ready() -> Response:
        """Say whether requests may come; a 503 names the reason why not."""
        reason = not_ready()
        return JSONResponse({"status": reason or "ok"}, status_code=503 if reason else 200)

    async def show_version() -> dict[str, str]:
        """Name the version."""
        return {"version": VERSION}

    async def show_load() -> dict[str, int]:
        """Tell how many requests this gateway works on, those that wait for an engine included."""
        return {"server_load": load.requests}

    app.get("/health", tags=["health"])(health)
    app.get("/ping", tags=["health"])(health)
    app.get(
        "/health/ready", response_model=dict[str, str], responses={503: {"model": dict[str, str]}}, tags=["health"]
    )(ready)
    app.get("/version", responses=errors((401,)), tags=["health"])(show_version)
    app.get("/load", responses=errors((401,)), tags=["health"])(show_load)


async def _on_service_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, ServiceError)
    headers = {name.decode(): value.decode() for name, value in exc.headers()}
    return Response(exc.body(), status_code=exc.status, headers=headers)


async def _on_http_exception(request: Request, exc: Exception) -> Response:
    """Answer what the router refuses, in the one shape of errors."""
    assert isinstance(exc, HTTPException)
    if exc.status_code == MethodNotAllowed.status:
        allow = (exc.headers or {}).get("Allow", "")
        return await _on_service_error(request, MethodNotAllowed("This method is not allowed here.", allow=allow))
    return await _on_service_error(request, NotFound("Nothing is served under this path."))


async def _on_invalid(request: Request, exc: Exception) -> Response:
    """Answer a query that is not what its path takes."""
    assert isinstance(exc, RequestValidationError)
    first = exc.errors()[0]
    param = ".".join(str(step) for step in first["loc"][1:])[:128]
    return await _on_service_error(request, invalid(param, first["msg"]))


async def _on_bug(request: Request, exc: Exception) -> Response:
    """Answer a fault of ours; the framework raises it again afterwards, and the edge logs it."""
    return await _on_service_error(request, InternalError("The server had an error while processing the request."))
