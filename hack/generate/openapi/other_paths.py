"""What needs no engine: models, answers that were kept, health."""

from typing import Annotated, Any

from fastapi import Body, FastAPI, Query

from conch_contracts.openai.model_list import Model, ModelList
from conch_contracts.openai.model_wake import ModelWake, WakeRequest
from conch_contracts.openai.responses.response import DeletedResponse, Response, StoredItemList
from conch_gateway.app.models_and_health import ModelsQuery
from conch_gateway.responses.stored_endpoints import ItemsQuery, RetrievalQuery
from generate.openapi.failures import errors

_FOR_A_WHILE = WakeRequest()


def describe_models(app: FastAPI) -> None:
    """Add the paths that tell of models."""

    @app.get("/v1/models", response_model=ModelList, responses=errors((400, 401, 503)), tags=["models"])
    async def list_models(query: Annotated[ModelsQuery, Query()]) -> None:
        """List every name that `model` may hold, the default model's first; in pages where `limit` is given.

        Errors have Anthropic's form where the request has the header `anthropic-version`.
        """

    @app.get("/v1/models/{name:path}", response_model=Model, responses=errors((401, 404, 503)), tags=["models"])
    async def get_model(name: str) -> None:
        """Describe one model. Errors have Anthropic's form where the request has the header `anthropic-version`."""

    @app.post(
        "/conch/v1/models/{name:path}/wake",
        response_model=ModelWake,
        status_code=202,
        responses=errors((400, 401, 404, 408, 413, 415, 503)),
        tags=["models"],
    )
    async def wake_model(name: str, request: Annotated[WakeRequest, Body()] = _FOR_A_WHILE) -> None:
        """Ask for a model at zero to be awake for a while, before there is a request for it."""


def describe_stored_responses(app: FastAPI) -> None:
    """Add the paths of answers that were kept."""
    described: dict[str, Any] = {"responses": errors((400, 401, 404, 503)), "tags": ["responses"]}

    @app.get("/v1/responses/{response_id}", response_model=Response, **described)
    async def retrieve_response(response_id: str, query: Annotated[RetrievalQuery, Query()]) -> None:
        """Return an answer that was kept. Log probabilities are in it if they were asked for when it was made."""

    @app.delete("/v1/responses/{response_id}", response_model=DeletedResponse, **described)
    async def delete_response(response_id: str) -> None:
        """Forget an answer, and the conversation that led to it."""

    @app.post("/v1/responses/{response_id}/cancel", response_model=Response, **described)
    async def cancel_response(response_id: str) -> None:
        """End the work on an answer in the background. One that has ended stays as it is."""

    @app.get("/v1/responses/{response_id}/input_items", response_model=StoredItemList, **described)
    async def list_input_items(response_id: str, query: Annotated[ItemsQuery, Query()]) -> None:
        """List what the model was given, earlier turns of the conversation included; the latest first by default."""


def describe_health(app: FastAPI) -> None:
    """Add the paths that tell of the gateway itself."""

    async def health() -> None:
        """Say that the process lives."""

    async def ready() -> None:
        """Say whether requests may come; a 503 names the reason why not."""

    async def show_version() -> None:
        """Name the version."""

    async def show_load() -> None:
        """Tell how many requests this gateway works on, those that wait for an engine included."""

    said: dict[str, Any] = {"response_model": dict[str, str], "tags": ["health"]}
    app.get("/health", **said)(health)
    app.get("/ping", **said)(health)
    app.get("/health/ready", responses={503: {"model": dict[str, str]}}, **said)(ready)
    app.get("/version", responses=errors((401,)), **said)(show_version)
    app.get("/load", response_model=dict[str, int], responses=errors((401,)), tags=["health"])(show_load)
