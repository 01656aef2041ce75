"""Bodies and frames against the schemas that OpenAI publishes."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[2] / "e2e" / "schemas"
FILES = ("openai.json", "responses.json")


def check(name: str, body: object) -> None:
    """Fail with every way in which a body departs from the published schema."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": _published()}}
    errors = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(body)]
    assert errors == [], "\n".join(errors)


def check_event(event: dict[str, Any]) -> None:
    """Check an event of a Responses stream against the schema of its type."""
    check(_events()[event["type"]], event)


def frames(stream: bytes) -> Iterator[dict[str, Any]]:
    """Yield the frames of a stream, which must consist of nothing else and end with [DONE]."""
    *parts, done, rest = stream.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    for part in parts:
        assert part.startswith("data: {")
        yield json.loads(part.removeprefix("data: "))


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
