"""The OpenAPI document: every endpoint as it answers, with its streams and its errors.

What FastAPI would say wrongly (its own form of errors, no streams) is put right.
"""

import json
import warnings

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from pydantic.warnings import UnsupportedFieldAttributeWarning

from conch_contracts.openai.sampling import INT64_MAX
from conch_gateway.app.models_and_health import VERSION
from conch_gateway.http.auth import OPEN_PATHS
from generate.openapi.anthropic_paths import describe_messages
from generate.openapi.encoder_paths import describe_encoders
from generate.openapi.field_docstrings import describe_fields
from generate.openapi.generation_paths import describe_generation, describe_invocations
from generate.openapi.other_paths import describe_health, describe_models, describe_stored_responses
from generate.openapi.speech_paths import FORMS, describe_speech, form_schema
from generate.openapi.streams import STREAMS, Document, Stream

_INTRODUCTION = (
    "Conch's API, which is OpenAI's. Every answer carries `x-request-id`. Unknown fields of a request are ignored; "
    "known ones are obeyed or refused by name, but for those that only concern the client or its provider. An answer "
    "that breaks after its first byte ends with an error event. `x-conch-max-wait` on a request says how many seconds "
    "it waits for an engine at most; `x-conch-cold-start` on a stream, in how many an engine should be there."
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


def document_text() -> str:
    """Return the document as the gateway's file has it."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def document() -> Document:
    """Return the document of a gateway that needs API keys."""
    app = FastAPI()
    describe_generation(app)
    describe_encoders(app)
    describe_speech(app)
    describe_messages(app)
    describe_invocations(app)
    describe_models(app)
    describe_stored_responses(app)
    describe_health(app)
    with warnings.catch_warnings():  # FastAPI hides it too, but not where a type is built later than its field
        warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
        made: Document = get_openapi(
            title="Conch",
            version=VERSION,
            description=_INTRODUCTION,
            routes=app.routes,
            separate_input_output_schemas=False,
        )
    schemas = made["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for stream in STREAMS:
        _add_schema(schemas, stream)
    for form in FORMS:
        schema = form_schema(form)
        schemas.update(schema.pop("$defs", {}))
        schemas[form.__name__] = schema
    for path, operations in made["paths"].items():
        for operation in operations.values():
            _put_right(operation, keyed=path not in OPEN_PATHS)
    _restore_integers(schemas)
    describe_fields(schemas)
    made["components"]["headers"] = _HEADERS
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
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
    if keyed:
        operation["security"] = [{"key": []}]
    else:
        responses.pop("401", None)
    for status, response in responses.items():
        names = [name for name in _HEADERS if name != "Retry-After" or status in ("429", "503", "529")]
        response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        if status in ("200", "202"):
            response["description"] = "The answer."
