"""JSON schemas whose objects have no properties beyond those that they name; pure.

JSON Schema lets an object have any further properties, which is right for judging a document and wrong for making one:
a model that may go on inventing properties does.
"""

from conch_contracts.openai.structured_output import JsonDocument

_OPEN = frozenset(
    {"patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas"}
)
"""What an object may get properties from beside `properties`."""


def closed(schema: JsonDocument) -> JsonDocument:
    """Return a schema whose objects are closed where they do not say whether they are.

    Schemas that `allOf` joins add to each other's properties; a schema that has such ones stays as it is.
    """
    return schema if _joins(schema) else _closed(schema)


def _closed(schema: JsonDocument) -> JsonDocument:
    names_all = isinstance(schema.get("properties"), dict) and _OPEN.isdisjoint(schema)
    ending: JsonDocument = {"additionalProperties": False} if names_all else {}
    return ending | {key: _closed_within(value) for key, value in schema.items()}


def _closed_within(value: object) -> object:
    match value:
        case list():
            return [_closed_within(item) for item in value]
        case dict():
            return _closed(value)
        case _:
            return value


def _joins(value: object) -> bool:
    match value:
        case list():
            return any(map(_joins, value))
        case dict():
            parts = value.get("allOf")
            return (isinstance(parts, list) and len(parts) > 1) or any(map(_joins, value.values()))
        case _:
            return False
