"""The endpoints for answers that were kept: look at one again, list what the model was given, delete, cancel."""

from typing import Annotated, Any, Literal

import orjson
from fastapi import FastAPI, Query, Request
from fastapi import Response as HttpResponse

from conch_contracts.openai.responses.response import DeletedResponse, Includable, Response, StoredItemList
from conch_gateway.errors.bad_request import unsupported
from conch_gateway.http.exchange import EXCHANGE, Exchange
from conch_gateway.openapi.document import errors
from conch_gateway.responses.conversation import Item
from conch_gateway.responses.store import Record, ResponseStore, owner_of
from conch_kit.errors import InvalidRequest, NotFound

MAX_PAGE = 100
STORED = (400, 401, 404, 503)
"""Statuses of errors."""
Include = Annotated[list[Includable] | None, Query(alias="include[]")]


def add_stored_responses(app: FastAPI, store: ResponseStore) -> None:
    """Add the endpoints; they belong to the key that made the answer."""

    async def found(request: Request, response_id: str) -> Record:
        record = await store.get(_owner(request), response_id)
        if record is None:
            raise _unknown(response_id)
        return record

    described: dict[str, Any] = {"responses": errors(STORED), "tags": ["responses"]}

    @app.get("/v1/responses/{response_id}", response_model=Response, **described)
    async def retrieve_response(
        request: Request, response_id: str, include: Include = None, *, stream: bool = False
    ) -> HttpResponse:
        """Return an answer that was kept. Log probabilities are in it if they were asked for when it was made."""
        if stream:
            raise unsupported("stream")
        return _verbatim((await found(request, response_id))["response"])

    @app.delete("/v1/responses/{response_id}", response_model=DeletedResponse, **described)
    async def delete_response(request: Request, response_id: str) -> DeletedResponse:
        """Forget an answer, and the conversation that led to it."""
        if not await store.delete(_owner(request), response_id):
            raise _unknown(response_id)
        return DeletedResponse(id=response_id, object="response.deleted", deleted=True)

    @app.post("/v1/responses/{response_id}/cancel", response_model=Response, **described)
    async def cancel_response(request: Request, response_id: str) -> HttpResponse:
        """Refuse: only answers in the background could be cancelled, and hanging up cancels all others."""
        await found(request, response_id)
        raise InvalidRequest("Cannot cancel a synchronous response.", param="response_id", code="invalid_value")

    @app.get(
        "/v1/responses/{response_id}/input_items",
        response_model=StoredItemList,
        **described,
    )
    async def list_input_items(
        request: Request,
        response_id: str,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 20,
        order: Literal["asc", "desc"] = "desc",
        after: str | None = None,
        include: Include = None,
    ) -> HttpResponse:
        """List what the model was given, earlier turns of the conversation included; the latest first by default."""
        return _verbatim(page((await found(request, response_id))["input"], limit=limit, order=order, after=after))


def page(items: list[Item], *, limit: int, order: str, after: str | None) -> dict[str, Any]:
    """Return a page of the items; raises InvalidRequest for an `after` that is none of them."""
    ordered = items if order == "asc" else items[::-1]
    ids = [item["id"] for item in ordered]
    if after is not None and after not in ids:
        raise InvalidRequest(f"No item has the id '{after[:128]}'.", param="after", code="invalid_value")
    start = 0 if after is None else ids.index(after) + 1
    shown = ordered[start : start + limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": start + limit < len(ordered),
    }


def _owner(request: Request) -> str:
    exchange: Exchange = request.scope["extensions"][EXCHANGE]
    return owner_of(exchange.key, exchange.headers)


def _unknown(response_id: str) -> NotFound:
    return NotFound(f"Response with id '{response_id[:128]}' not found.", param="response_id")


def _verbatim(document: dict[str, Any]) -> HttpResponse:
    """Return what was kept as it is: it was valid when it was made."""
    return HttpResponse(orjson.dumps(document), media_type="application/json")
