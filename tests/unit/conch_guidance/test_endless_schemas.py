from typing import Any

import pytest

from conch_guidance.endless_schemas import inspect_json_schema
from conch_guidance.errors import UnusableGrammar


def holding(name: str, schema: object, **more: object) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name], **more}


SELF = {"$ref": "#"}
NODE = {"$ref": "#/$defs/node"}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"next": SELF}},
        holding("next", {"anyOf": [SELF, {"type": "null"}]}),
        holding("next", {"type": "array", "items": SELF}),
        holding("next", {"enum": [1], **SELF}),
        holding("other", SELF) | {"required": ["unknown"]},
        {"type": ["object", "null"], "properties": {"a": SELF}, "required": ["a"]},
        {**NODE, "$defs": {"node": holding("next", {"oneOf": [NODE, {"type": "string"}]})}},
        {**NODE, "$defs": {"node": holding("a~b/c", {"$ref": "#/$defs/a~0b~1c"}), "a~b/c": {"type": "string"}}},
        holding("a", {"$ref": "#/nowhere"}),
        holding("a", {"$ref": "#anchor"}),
        {"type": "array", "prefixItems": [{"type": "string"}, SELF], "minItems": 1},
        {"properties": {"$ref": {"type": "string"}}},
    ],
)
def test_a_schema_that_some_json_obeys_is_left_to_the_compiler(schema: dict[str, Any]) -> None:
    inspect_json_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        SELF,
        holding("next", SELF),
        holding("next", {"anyOf": [SELF, holding("b", SELF)]}),
        {"allOf": [{"type": "object"}, holding("a", SELF)]},
        {"type": "array", "items": SELF, "minItems": 1},
        {"type": "array", "prefixItems": [{"type": "string"}, SELF], "minItems": 2},
        {**NODE, "$defs": {"node": holding("next", {"$ref": "#/%24defs/other"}), "other": holding("back", NODE)}},
    ],
)
def test_a_schema_that_demands_itself_for_ever_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(UnusableGrammar, match="required inside of itself"):
        inspect_json_schema(schema)
