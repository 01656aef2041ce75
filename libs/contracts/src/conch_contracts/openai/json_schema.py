"""What a JSON Schema looks like, as far as all of its drafts agree: what is none is refused where it goes wrong.

Whether a schema can be enforced, and what its references point to, is another matter: see the check of grammars. The
first mistake ends the check, and so does one schema more than `MAX_SCHEMAS`, so that nobody can make it long.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from conch_contracts.openai.api_model import ApiModel

Path = tuple[str | int, ...]
Kind = Literal["string", "number", "integer", "boolean", "object", "array", "null"]
Count = Annotated[int, Field(ge=0)]
Number = int | float
Schemas = dict[str, Any]
SchemaList = Annotated[list[Any], Field(min_length=1)]

MAX_SCHEMAS = 10_000
"""Schemas in a schema, itself among them."""

_NAMED = ("properties", "patternProperties", "$defs", "definitions")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")


class Keywords(ApiModel):
    """The keywords of one schema whose values have a certain form; all others are left alone."""

    type: Kind | Annotated[list[Kind], Field(min_length=1, fail_fast=True)] | None = None
    enum: list[Any] | None = None
    ref: str | None = Field(default=None, alias="$ref")
    properties: Schemas | None = None
    pattern_properties: Schemas | None = Field(default=None, alias="patternProperties")
    defs: Schemas | None = Field(default=None, alias="$defs")
    definitions: Schemas | None = None
    any_of: SchemaList | None = Field(default=None, alias="anyOf")
    one_of: SchemaList | None = Field(default=None, alias="oneOf")
    all_of: SchemaList | None = Field(default=None, alias="allOf")
    prefix_items: list[Any] | None = Field(default=None, alias="prefixItems")
    required: Annotated[list[str], Field(fail_fast=True)] | None = None
    pattern: str | None = None
    minimum: Number | None = None
    maximum: Number | None = None
    exclusive_minimum: bool | Number | None = Field(default=None, alias="exclusiveMinimum")
    """A flag in the oldest draft."""
    exclusive_maximum: bool | Number | None = Field(default=None, alias="exclusiveMaximum")
    multiple_of: Number | None = Field(default=None, alias="multipleOf")
    min_length: Count | None = Field(default=None, alias="minLength")
    max_length: Count | None = Field(default=None, alias="maxLength")
    min_items: Count | None = Field(default=None, alias="minItems")
    max_items: Count | None = Field(default=None, alias="maxItems")
    min_properties: Count | None = Field(default=None, alias="minProperties")
    max_properties: Count | None = Field(default=None, alias="maxProperties")


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    waiting: list[tuple[Path, object]] = [((), schema)]
    seen = 1
    while waiting:
        path, here = waiting.pop()
        if isinstance(here, bool):
            continue  # anything, or nothing
        try:
            Keywords.model_validate(here)
        except ValidationError as exc:
            raise _below(path, exc) from None
        if isinstance(here, dict):
            inner = list(islice(_inner(path, here), MAX_SCHEMAS - seen + 1))
            seen += len(inner)
            if seen > MAX_SCHEMAS:
                raise PydanticCustomError("too_large", f"expected at most {MAX_SCHEMAS} schemas in a schema")
            waiting += inner
    return schema


def _inner(path: Path, schema: dict[str, Any]) -> Iterator[tuple[Path, object]]:
    """Yield the schemas that stand in a schema, with their paths."""
    for key in schema.keys() & _KEYS:
        value = schema[key]
        if key in _NAMED and value is not None:
            yield from (((*path, key, name), inner) for name, inner in value.items())
        elif isinstance(value, list):
            yield from (((*path, key, index), inner) for index, inner in enumerate(value))
        elif value is not None:
            yield (*path, key), value


def _below(path: Path, exc: ValidationError) -> ValidationError:
    details = [
        InitErrorDetails(type=error["type"], loc=(*path, *error["loc"]), input=error["input"], ctx=error.get("ctx", {}))
        for error in exc.errors(include_url=False)
    ]
    return ValidationError.from_exception_data(exc.title, details)


def _of_an_object(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = schema.get("type")
    if kinds is not None and "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        error = PydanticCustomError("object_type", "expected 'object'")
        raise ValidationError.from_exception_data("Schema", [InitErrorDetails(type=error, loc=("type",), input=kinds)])
    return schema


_KEYS = frozenset((*_NAMED, *_LISTED, *_SINGLE))

JsonSchema = Annotated[dict[str, Any], AfterValidator(_checked)]
"""A schema as the client sent it."""
ObjectSchema = Annotated[JsonSchema, AfterValidator(_of_an_object)]
"""One that objects can obey, as the arguments of a function must be."""
