"""JSON schemas whose objects have no properties beyond those that they name; pure.

JSON Schema lets an object have any further properties, which is right for judging a document and wrong for making one:
a model that may go on inventing properties does.
"""

from conch_contracts.openai.structured import JsonDocument

_OPEN = frozenset(
    {"patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas"}
)
"""What an object may get properties from beside `properties`."""


def closed(schema: JsonDocument) -> JsonDocument:
    """Return a schema whose objects are closed where they do not say whether they are.

    Schemas that `allOf` joins add to each other's properties; a schema that has such ones stays as it is.
    """
    return schema if _joins(schema) else {key: _closed(value) for key, value in _with_end(schema).items()}


def _closed(value: object) -> object:
    match value:
        case list():
            return [_closed(item) for item in value]
        case dict():
            return {key: _closed(item) for key, item in _with_end(value).items()}
        case _:
            return value


def _with_end(schema: JsonDocument) -> JsonDocument:
    names_all = isinstance(schema.get("properties"), dict) and _OPEN.isdisjoint(schema)
    return {"additionalProperties": False, **schema} if names_all else schema


def _joins(value: object) -> bool:
    match value:
        case list():
            return any(map(_joins, value))
        case dict():
            parts = value.get("allOf")
            return (isinstance(parts, list) and len(parts) > 1) or any(map(_joins, value.values()))
        case _:
            return False
