"""The schemas that OpenAI publishes, and the check of a body against one of them."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

_FOLDER = Path(__file__).parents[2] / "e2e" / "schemas"
_FILES = ("openai.json", "responses.json")


def check(name: str, body: object) -> None:
    """Fail with every way in which a body departs from the published schema."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": _SCHEMAS}}
    errors = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(body)]
    assert errors == [], "\n".join(errors)


def check_event(event: dict[str, Any]) -> None:
    """Check an event of a Responses stream against the schema of its type."""
    check(_EVENTS[event["type"]], event)


def _modern(schema: Any) -> Any:
    """Return a schema with OpenAPI 3.0's `nullable` written as JSON Schema understands it."""
    if isinstance(schema, list):
        return [_modern(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _modern(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [parts, {"type": "null"}]} if schema.get("nullable") is True else parts


def _read() -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for name in _FILES:
        schemas |= _modern(json.loads((_FOLDER / name).read_text())["components"]["schemas"])
    return schemas


_SCHEMAS = _read()
_EVENTS = {
    schema["properties"]["type"]["enum"][0]: name
    for name, schema in _SCHEMAS.items()
    if name.startswith("Response") and name.endswith("Event")
}
