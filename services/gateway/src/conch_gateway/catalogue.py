"""What the gateway serves beside inference, on FastAPI: models, health, version, and the OpenAPI document.

The inference paths appear in the document only; `edge.py` serves them before a request gets here.
"""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from conch_contracts.openai.chat import ChatCompletion, ChatCompletionRequest
from conch_contracts.openai.completions import Completion, CompletionRequest
from conch_contracts.openai.errors import ErrorResponse
from conch_contracts.openai.models import Model, ModelList, ModelPermission
from conch_contracts.records import Profile, Route
from conch_gateway.encoders.description import describe_encoders
from conch_gateway.resolve import not_found
from conch_kit.errors import InternalError, MethodNotAllowed, NotFound, ServiceError, Unavailable
from conch_kit.snapshot import Snapshot

VERSION = version("conch-gateway")
DENGLIN_OWNER = "openai_api"


def catalogue(
    snapshot: Callable[[], Snapshot | None], not_ready: Callable[[], str | None], *, owned_by: str, openapi: bool
) -> FastAPI:
    """Return the application; `not_ready` gives the reason why no requests should come."""
    app = FastAPI(
        title="Conch",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json" if openapi else None,
        redirect_slashes=False,
    )
    app.add_exception_handler(ServiceError, _on_service_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(Exception, _on_bug)
    _add_models(app, snapshot, owned_by)
    _add_health(app, not_ready)
    _describe_inference(app)
    return app


def describe(name: str, route: Route, owned_by: str) -> Model:
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


def _add_models(app: FastAPI, snapshot: Callable[[], Snapshot | None], owned_by: str) -> None:
    def current() -> Snapshot:
        known = snapshot()
        if known is None:
            raise Unavailable("The models are not known yet.", code="model_not_ready", retry_after_s=1)
        return known

    @app.get("/v1/models", response_model=ModelList, tags=["models"])
    async def list_models() -> ModelList:
        """List every name that `model` may hold."""
        names = current().by_name
        ordered = sorted(names.items(), key=lambda item: (item[1].created, item[1].model_id, item[0]))
        return ModelList(data=[describe(name, route, owned_by) for name, route in ordered])

    @app.get("/v1/models/{name:path}", response_model=Model, tags=["models"], responses={404: {"model": ErrorResponse}})
    async def get_model(name: str) -> Model:
        """Describe one model."""
        route = current().by_name.get(name)
        if route is None:
            raise not_found(name)
        return describe(name, route, owned_by)


def _add_health(app: FastAPI, not_ready: Callable[[], str | None]) -> None:
    async def health() -> dict[str, str]:
        """Say that the process lives."""
        return {"status": "ok"}

    async def ready() -> Response:
        """Say whether requests may come."""
        reason = not_ready()
        return JSONResponse({"status": reason or "ok"}, status_code=503 if reason else 200)

    async def show_version() -> dict[str, str]:
        """Name the version."""
        return {"version": VERSION}

    app.get("/health", tags=["health"])(health)
    app.get("/ping", tags=["health"])(health)
    app.get("/health/ready", tags=["health"])(ready)
    app.get("/version", tags=["health"])(show_version)


def _describe_inference(app: FastAPI) -> None:
    errors: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorResponse} for status in (400, 401, 404, 413, 415, 429, 502, 503, 504)
    }

    async def chat(request: ChatCompletionRequest) -> None:
        """Answer a conversation; with `stream` as server-sent `chat.completion.chunk` events."""

    async def completions(request: CompletionRequest) -> None:
        """Continue a text; with `stream` as server-sent events."""

    app.post("/v1/chat/completions", response_model=ChatCompletion, responses=errors, tags=["inference"])(chat)
    app.post("/v1/completions", response_model=Completion, responses=errors, tags=["inference"])(completions)
    describe_encoders(app, errors)


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


async def _on_bug(request: Request, exc: Exception) -> Response:
    """Answer a fault of ours; the framework raises it again afterwards, and the edge logs it."""
    return await _on_service_error(request, InternalError("The server had an error while processing the request."))
