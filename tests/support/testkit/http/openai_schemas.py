"""Bodies and frames against the schemas that OpenAI publishes."""

import base64
import json
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[3] / "e2e" / "schemas"
FILES = ("openai.json", "responses.json")


class _Answers(NamedTuple):
    """The schemas of an endpoint's answers; the events of a stream of the Responses API have one for each type."""

    whole: str
    frame: str | None = None


_ANSWERS = {
    "chat/completions": _Answers("CreateChatCompletionResponse", "CreateChatCompletionStreamResponse"),
    "completions": _Answers("CreateCompletionResponse", "CreateCompletionResponse"),
    "responses": _Answers("Response"),
    "embeddings": _Answers("CreateEmbeddingResponse"),
    "models": _Answers("ListModelsResponse"),
}
_OF_SPEECH = ("audio/transcriptions", "audio/translations")


def check(name: str, body: object) -> None:
    """Fail with every way in which a body departs from the published schema."""
    errors = [f"{error.json_path}: {error.message}" for error in _validator(name).iter_errors(body)]
    assert errors == [], "\n".join(errors)


def check_event(event: dict[str, Any]) -> None:
    """Check an event of a Responses stream against the schema of its type."""
    check(_events()[event["type"]], event)


def check_answer(path: str, status: int, content_type: str, body: bytes) -> None:
    """Check a whole answer of an endpoint that OpenAI has too; others are left alone."""
    if path.endswith(_OF_SPEECH):
        if content_type == "application/json":
            check(_transcript(status, body), json.loads(body))
        return
    endpoint = next((name for name in _ANSWERS if path.endswith(f"/v1/{name}")), None)
    if endpoint is None:
        return
    if content_type == "text/event-stream":
        _check_stream(endpoint, body)
    elif status == 200:
        check(_ANSWERS[endpoint].whole, _with_numbers(json.loads(body)))
    else:
        check("ErrorResponse", json.loads(body))


def _transcript(status: int, body: bytes) -> str:
    """Return the schema of a transcript in JSON, which names its duration where it is verbose."""
    if status != 200:
        return "ErrorResponse"
    return "CreateTranscriptionResponseVerboseJson" if b'"duration":' in body else "CreateTranscriptionResponseJson"


def _check_stream(endpoint: str, body: bytes) -> None:
    name = _ANSWERS[endpoint].frame
    if name is None:
        for part in body.decode().removesuffix("\n\n").split("\n\n"):
            kind, _, data = part.partition("\n")
            event = json.loads(data.removeprefix("data: "))
            assert kind == f"event: {event['type']}"
            check_event(event)
        return
    for frame in frames(body):
        for choice in frame["choices"] if endpoint == "completions" else ():
            # OpenAI sends null until a choice ends, which its schema does not foresee.
            choice["finish_reason"] = choice["finish_reason"] or "stop"
        check(name, frame)


def _with_numbers(body: dict[str, Any]) -> dict[str, Any]:
    """Return embeddings as numbers: the schema does not foresee base64, which OpenAI's own client asks for."""
    for item in body["data"] if body.get("object") == "list" else ():
        if isinstance(item.get("embedding"), str):
            packed = base64.b64decode(item["embedding"], validate=True)
            item["embedding"] = list(struct.unpack(f"<{len(packed) // 4}f", packed))
    return body


def frames(stream: bytes) -> Iterator[dict[str, Any]]:
    """Yield the frames of a stream, which must consist of nothing else and end with [DONE]."""
    *parts, done, rest = stream.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    for part in parts:
        assert part.startswith("data: {")
        yield json.loads(part.removeprefix("data: "))


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": {"schemas": _published()}})


@cache
def _published() -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for name in FILES:
        schemas |= _modern(json.loads((FOLDER / name).read_text())["components"]["schemas"])
    return schemas


@cache
def _events() -> dict[str, str]:
    """Return which schema is that of an event's type."""
    return {
        schema["properties"]["type"]["enum"][0]: name
        for name, schema in _published().items()
        if name.startswith("Response") and name.endswith("Event")
    }


def _modern(schema: Any) -> Any:
    """Return a schema with OpenAPI 3.0's `nullable` written as JSON Schema understands it."""
    if isinstance(schema, list):
        return [_modern(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _modern(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [parts, {"type": "null"}]} if schema.get("nullable") is True else parts
