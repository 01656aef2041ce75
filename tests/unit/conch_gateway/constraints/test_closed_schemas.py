"""Which objects of a schema get no further properties."""

import pytest

from conch_gateway.constraints.closed_schemas import closed

CLOSED = {"additionalProperties": False}
ONE = {"properties": {"a": {"type": "integer"}}}
PARTS = {"allOf": [{"$ref": "#/$defs/one"}, {"required": ["a"]}], "$defs": {"one": ONE}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (ONE, ONE | CLOSED),
        ({"type": "object"}, {"type": "object"}),
        (ONE | {"additionalProperties": True}, ONE | {"additionalProperties": True}),
        (ONE | {"patternProperties": {"^x": {}}}, ONE | {"patternProperties": {"^x": {}}}),
        (ONE | {"anyOf": [{"required": ["a"]}]}, ONE | {"anyOf": [{"required": ["a"]}]}),
        ({"items": ONE}, {"items": ONE | CLOSED}),
        ({"anyOf": [ONE, {"type": "null"}]}, {"anyOf": [ONE | CLOSED, {"type": "null"}]}),
        ({"allOf": [ONE]}, {"allOf": [ONE | CLOSED]}),
        ({"properties": {"b": ONE}}, {"properties": {"b": ONE | CLOSED}} | CLOSED),
        (ONE | {"$defs": {"one": ONE}}, ONE | {"$defs": {"one": ONE | CLOSED}} | CLOSED),
        (PARTS, PARTS),
        ({"properties": {"b": PARTS}}, {"properties": {"b": PARTS}}),
    ],
)
def test_objects_that_do_not_say_are_closed_where_nothing_adds_to_them(
    schema: dict[str, object], expected: dict[str, object]
) -> None:
    assert closed(schema) == expected
