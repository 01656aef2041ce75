"""The endpoints for answers that were kept: look at one again, list what the model was given, delete, cancel."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from conch_contracts.openai.responses.response import DeletedResponse, Includable
from conch_gateway.errors.bad_request import unsupported
from conch_gateway.http.auth import owner_of
from conch_gateway.http.paths import Answer, Endpoint, PathRequest
from conch_gateway.http.query import Query, read_query
from conch_gateway.responses.conversation import Item
from conch_gateway.responses.store import Record, ResponseNote, ResponseStore, StopOrder
from conch_gateway.responses.stored_answer import LEASE_S, UNDER_WAY, read_answer
from conch_kit.errors import InvalidRequest, NotFound
from conch_kit.json_bytes import json_bytes

MAX_PAGE = 100
STOPS_WITHIN_S = 5.0
"""How long a cancellation waits for the gateway that does the work."""


class RetrievalQuery(Query):
    """What may be asked with an answer."""

    include: list[Includable] | None = Field(None, alias="include[]")
    stream: bool = False


class ItemsQuery(Query):
    """Which of the items that the model was given."""

    limit: int = Field(20, ge=1, le=MAX_PAGE)
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None
    include: list[Includable] | None = Field(None, alias="include[]")


def stored_endpoints(store: ResponseStore) -> Mapping[tuple[str, str], Endpoint]:
    """Return the endpoints, by method and path; answers belong to the key that made them."""
    stored = _StoredEndpoints(store)
    return {
        ("GET", "/v1/responses/{response_id}"): stored.retrieve,
        ("DELETE", "/v1/responses/{response_id}"): stored.delete,
        ("POST", "/v1/responses/{response_id}/cancel"): stored.cancel,
        ("GET", "/v1/responses/{response_id}/input_items"): stored.input_items,
    }


class _StoredEndpoints:
    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    async def retrieve(self, request: PathRequest) -> Answer:
        """Return an answer that was kept. Log probabilities are in it if they were asked for when it was made."""
        if read_query(RetrievalQuery, request.query).stream:
            raise unsupported("stream")
        return _verbatim((await self._found(request))["response"])

    async def delete(self, request: PathRequest) -> Answer:
        """Forget an answer, and the conversation that led to it."""
        owner, response_id = _named(request)
        if (await self._found(request))["response"]["status"] in UNDER_WAY:
            await self._store.leave_note(owner, response_id, ResponseNote.STOP, StopOrder.DELETE, LEASE_S)
        if not await self._store.delete(owner, response_id):
            raise _unknown(response_id)
        deleted = DeletedResponse(id=response_id, object="response.deleted", deleted=True)
        return Answer(deleted.model_dump_json().encode())

    async def cancel(self, request: PathRequest) -> Answer:
        """End the work on an answer in the background. One that has ended stays as it is."""
        owner, response_id = _named(request)
        response = (await self._found(request))["response"]
        if not response["background"]:  # hanging up cancels these
            raise InvalidRequest("Cannot cancel a synchronous response.", param="response_id", code="invalid_value")
        if response["status"] in UNDER_WAY:
            await self._store.leave_note(owner, response_id, ResponseNote.STOP, StopOrder.CANCEL, LEASE_S)
            response = await self._ended(request, response)
        return _verbatim(response)

    async def input_items(self, request: PathRequest) -> Answer:
        """List what the model was given, earlier turns of the conversation included; the latest first by default."""
        query = read_query(ItemsQuery, request.query)
        items = (await self._found(request))["input"]
        return _verbatim(page(items, limit=query.limit, order=query.order, after=query.after))

    async def _found(self, request: PathRequest) -> Record:
        owner, response_id = _named(request)
        record = await read_answer(self._store, owner, response_id)
        if record is None:
            raise _unknown(response_id)
        return record

    async def _ended(self, request: PathRequest, response: dict[str, Any]) -> dict[str, Any]:
        """Return the answer when its gateway has heard that it is to stop, or as it is when that takes too long."""
        last = time.monotonic() + STOPS_WITHIN_S
        while response["status"] in UNDER_WAY and time.monotonic() < last:
            await asyncio.sleep(0.1)
            response = (await self._found(request))["response"]
        return response


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


def _named(request: PathRequest) -> tuple[str, str]:
    """Return whose answer is meant, and which."""
    return owner_of(request.exchange.key, request.exchange.headers), request.parts["response_id"]


def _unknown(response_id: str) -> NotFound:
    return NotFound(f"Response with id '{response_id[:128]}' not found.", param="response_id")


def _verbatim(document: dict[str, Any]) -> Answer:
    """Return what was kept as it is: it was valid when it was made."""
    return Answer(json_bytes(document))
