from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from conch_contracts.openai.json_schema import MAX_SCHEMAS, JsonSchema, ObjectSchema

SCHEMA = TypeAdapter(JsonSchema)
NODE = {"type": "object", "properties": {"next": {"$ref": "#"}, "value": {"enum": [1, "a", None]}}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        NODE,
        {"type": ["string", "null"], "pattern": "(?=a)", "minLength": 0, "unheard_of": {"type": "strin"}},
        {"type": "array", "items": [{"type": "number"}, True], "additionalItems": False},
        {"type": "array", "prefixItems": [{}], "items": False, "contains": {"not": {"const": {"type": "strin"}}}},
        {"minimum": 0, "exclusiveMinimum": True, "maximum": 1.5, "exclusiveMaximum": 2, "multipleOf": 0.5},
        {"if": NODE, "then": NODE, "else": {"anyOf": [NODE, False]}, "$defs": {"type": NODE}, "definitions": {}},
        {"properties": {"type": {"type": "string"}, "required": {"type": "array"}, "properties": {"type": "object"}}},
        {"type": None, "properties": None, "items": None},
        {"properties": {"a": {"default": {"type": 3}, "examples": 5, "title": "A"}}},
    ],
)
def test_schemas_of_every_draft_pass_as_they_are(schema: dict[str, Any]) -> None:
    assert SCHEMA.validate_python(schema) == schema


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "strin"}, ("type",)),
        ({"type": []}, ("type",)),
        ({"properties": []}, ("properties",)),
        ({"properties": {"a": 5}}, ("properties", "a")),
        ({"properties": {"a": {"type": ["string", "x"]}}}, ("properties", "a", "type")),
        ({"required": "a"}, ("required",)),
        ({"required": [1]}, ("required", 0)),
        ({"items": [{}, {"type": 3}]}, ("items", 1, "type")),
        ({"anyOf": []}, ("anyOf",)),
        ({"oneOf": {"type": "string"}}, ("oneOf",)),
        ({"allOf": [{"not": {"enum": 3}}]}, ("allOf", 0, "not", "enum")),
        ({"$defs": {"a": {"additionalProperties": {"minLength": "3"}}}}, ("$defs", "a", "additionalProperties")),
        ({"maxItems": -1}, ("maxItems",)),
        ({"minimum": "0"}, ("minimum",)),
        ({"$ref": {}}, ("$ref",)),
    ],
)
def test_what_is_no_schema_is_refused_where_it_goes_wrong(schema: dict[str, Any], place: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as refused:
        SCHEMA.validate_python(schema)
    assert all(error["loc"][: len(place)] == place for error in refused.value.errors())


def test_the_first_mistake_ends_the_check() -> None:
    schema = {"properties": {f"p{n}": {"type": "strin"} for n in range(20_000)}}
    with pytest.raises(ValidationError) as refused:
        SCHEMA.validate_python(schema)
    assert refused.value.error_count() <= 2


def test_a_schema_holds_a_bounded_number_of_schemas() -> None:
    def wide(count: int) -> dict[str, Any]:
        return {"items": {"anyOf": [{"properties": {f"p{n}": True for n in range(count)}}]}}

    assert SCHEMA.validate_python(wide(MAX_SCHEMAS - 3))
    with pytest.raises(ValidationError, match="expected at most 10000 schemas"):
        SCHEMA.validate_python(wide(MAX_SCHEMAS - 2))


@pytest.mark.parametrize("schema", [{}, NODE, {"type": ["object", "null"]}, {"type": None}, {"$ref": "#/$defs/a"}])
def test_objects_can_obey_the_arguments_of_a_function(schema: dict[str, Any]) -> None:
    assert TypeAdapter(ObjectSchema).validate_python(schema) == schema


@pytest.mark.parametrize("kind", ["string", "array", ["string", "null"]])
def test_arguments_of_another_type_are_refused_where_they_say_so(kind: str | list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(ObjectSchema).validate_python({"type": kind})
    assert [(error["loc"], error["msg"]) for error in caught.value.errors()] == [(("type",), "expected 'object'")]
