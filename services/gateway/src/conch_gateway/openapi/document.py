"""The OpenAPI document: every endpoint as it answers, with its streams and its errors.

FastAPI makes the document of what it serves and of what is described here: `Edge` answers inference POSTs before they
get to FastAPI. What FastAPI would say wrongly (its own form of errors, no streams) is put right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from conch_contracts.openai.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionRequest
from conch_contracts.openai.completions import Completion, CompletionRequest
from conch_contracts.openai.errors import ErrorResponse
from conch_contracts.openai.responses.events import ResponseStreamEvent
from conch_contracts.openai.responses.response import Response as ResponseObject
from conch_contracts.openai.responses.response import ResponsesRequest
from conch_contracts.openai.sampling import INT64_MAX
from conch_gateway.http.auth import OPEN_PATHS

Document = dict[str, Any]
Responses = dict[int | str, dict[str, Any]]

STATUSES: Mapping[int, str] = {
    400: "The request is wrong, or asks for what this model cannot do; `param` is the dotted path of the parameter.",
    401: "The API key is missing or unknown.",
    404: "No such model, response or path.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not JSON in UTF-8, or is compressed.",
    429: "The model's queue is full; `Retry-After` says when to try again.",
    500: "A fault in the gateway; the message says nothing of the inside.",
    502: "The engine or a worker failed.",
    503: "No engine or worker is ready or free in time, or the server ends; `Retry-After` says when to try again.",
    504: "The answer was not there in time.",
}
INFERENCE = tuple(STATUSES)
_INTRODUCTION = (
    "Conch's API, which is OpenAI's. Every answer carries `x-request-id`. Unknown fields of a request are ignored; "
    "known ones are obeyed or refused by name, but for those that only concern the client or its provider. An answer "
    "that breaks after its first byte ends with an error event."
)
_HEADERS: Document = {
    "x-request-id": {
        "description": "The client's own id of the request, when it sent a sane one, else a new one.",
        "schema": {"type": "string"},
    },
    "openai-processing-ms": {
        "description": "Milliseconds from the request's head to that of the answer.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "openai-version": {"description": "The version of OpenAI's API.", "schema": {"const": "2020-10-01"}},
    "Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}},
}


@dataclass(frozen=True, slots=True)
class Stream:
    """What an answer is with `stream`."""

    name: str
    """Of the type of each event."""
    events: Any
    ending: str
    others: tuple[Document, ...] = ()
    """The schemas of what `data` may be beside such an event."""

    def responses(self) -> Responses:
        """Return the answer as a path's description has it beside the whole one."""
        said = f"With `stream`: server-sent events whose data is a `{self.name}` each. {self.ending}"
        data = {"anyOf": [_json_text(self.name), *self.others]} if self.others else _json_text(self.name)
        fields = {"event": {"type": "string"}, "data": data}
        item = {"type": "object", "description": said, "properties": fields, "required": ["data"]}
        return {200: {"content": {"text/event-stream": {"itemSchema": item}}}}


def _json_text(name: str) -> Document:
    reference = {"$ref": f"#/components/schemas/{name}"}
    return {"type": "string", "contentMediaType": "application/json", "contentSchema": reference}


_DONE = "The last one is `[DONE]`; an answer that breaks ends with an `ErrorResponse` instead."
_LAST = ({"const": "[DONE]"}, _json_text("ErrorResponse"))
STREAMS = (
    Stream("ChatCompletionChunk", ChatCompletionChunk, _DONE, _LAST),
    Stream("Completion", Completion, _DONE, _LAST),
    Stream("ResponseStreamEvent", ResponseStreamEvent, "The last one holds the whole response, or an error."),
)
_CHUNKS, _TEXTS, _EVENTS = STREAMS
CHUNKS_OR_TEXTS = Stream(
    "ChatCompletionChunk",
    ChatCompletionChunk,
    f"Of a text completion each is a `Completion`. {_DONE}",
    (_json_text("Completion"), *_LAST),
)
"""What a path streams that serves chats and text completions."""


def errors(statuses: Sequence[int] = INFERENCE) -> Responses:
    """Return these errors as a path's description has them."""
    return {status: {"model": ErrorResponse, "description": STATUSES[status]} for status in statuses}


def describe_inference(app: FastAPI) -> None:
    """Add the generating endpoints."""

    async def chat(request: ChatCompletionRequest) -> None:
        """Answer a conversation."""

    async def completions(request: CompletionRequest) -> None:
        """Continue a text."""

    async def responses(request: ResponsesRequest) -> None:
        """Answer a conversation of items, and keep the answer unless the request says otherwise."""

    described = (
        ("/v1/chat/completions", chat, ChatCompletion, _CHUNKS),
        ("/v1/completions", completions, Completion, _TEXTS),
        ("/v1/responses", responses, ResponseObject, _EVENTS),
    )
    for path, handler, answer, stream in described:
        kinds = {**stream.responses(), **errors()}
        app.post(path, response_model=answer, responses=kinds, tags=["generation"])(handler)


def serve_document(app: FastAPI, *, keyed: bool) -> None:
    """Serve the document; it is made when it is asked for first."""
    made: list[bytes] = []

    @app.get("/openapi.json", include_in_schema=False)
    async def show() -> Response:
        if not made:
            made.append(orjson.dumps(document(app, keyed=keyed)))
        return Response(made[0], media_type="application/json")


def document(app: FastAPI, *, keyed: bool) -> Document:
    """Return the document; `keyed` says whether requests need an API key."""
    made: Document = get_openapi(
        title=app.title,
        version=app.version,
        description=_INTRODUCTION,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    schemas = made["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for stream in STREAMS:
        _add_schema(schemas, stream)
    for path, operations in made["paths"].items():
        for operation in operations.values():
            _put_right(operation, keyed=keyed and path not in OPEN_PATHS)
    _restore_integers(schemas)
    made["components"]["headers"] = _HEADERS
    if keyed:
        made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return made


def _add_schema(schemas: Document, stream: Stream) -> None:
    """Add the type of a stream's events, which no path has as a whole answer."""
    schema = TypeAdapter(stream.events).json_schema(
        ref_template="#/components/schemas/{model}",
        mode="serialization" if stream.name == "Completion" else "validation",
    )
    schemas.update({name: found for name, found in schema.pop("$defs", {}).items() if name not in schemas})
    schemas.setdefault(stream.name, schema)


def _restore_integers(part: object) -> None:
    """Make the bounds of integers integers again: FastAPI makes floats of them, and of the last of 64 bits one more."""
    if isinstance(part, dict):
        if part.get("type") == "integer":
            bounds = {name: part[name] for name in ("minimum", "maximum") if isinstance(part.get(name), float)}
            part.update({name: min(int(bound), INT64_MAX) for name, bound in bounds.items()})
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        _restore_integers(inner)


def _put_right(operation: Document, *, keyed: bool) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    if keyed:
        operation["security"] = [{"key": []}]
    else:
        responses.pop("401", None)
    for status, response in responses.items():
        names = [name for name in _HEADERS if name != "Retry-After" or status in ("429", "503")]
        response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        if status == "200":
            response["description"] = "The answer."
