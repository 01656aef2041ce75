"""Turns the JSON schema of a pydantic model into the structural schema that a CustomResourceDefinition holds.

Structural schemas know no references, no null and no alternatives, and the cost of their CEL rules is estimated from
the bounds of strings, lists and maps. So everything is put in place, and what has no bound or description is refused.
"""

from collections.abc import Mapping

from pydantic import BaseModel

Schema = dict[str, object]

_COPIED = (
    "type",
    "format",
    "enum",
    "default",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
)
_DROPPED = ("title", "description", "$defs", "additionalProperties", "properties", "items", "const", "examples")
_BOUNDS = {"string": "maxLength", "array": "maxItems", "map": "maxProperties"}


class NotStructural(Exception):
    """A type that a CustomResourceDefinition cannot hold, or whose bound or description is missing."""


def structural(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model; raises NotStructural."""
    schema = model.model_json_schema(mode="serialization")
    return _Converter(_mapping(schema.get("$defs", {}))).convert(schema, model.__name__)


class _Converter:
    """Converts the parts of one JSON schema; `path` says where, for the author of the types."""

    def __init__(self, definitions: Mapping[str, object]) -> None:
        self._definitions = definitions

    def convert(self, given: Mapping[str, object], path: str) -> Schema:
        source = self._resolve(given, path)
        if unknown := [key for key in source if key not in (*_COPIED, *_DROPPED)]:
            raise NotStructural(f"{path}: {', '.join(unknown)} cannot be expressed")
        if not source.get("description") and "." in path and not path.endswith(("[]", "{}")):
            raise NotStructural(f"{path}: has no description")
        described = {"description": _paragraphs(str(source["description"]))} if source.get("description") else {}
        made: Schema = described | {key: source[key] for key in _COPIED if key in source}
        if "const" in source:
            made["enum"] = [source["const"]]
        if "properties" in source:
            properties = _mapping(source["properties"])
            made["properties"] = {
                name: self.convert(_mapping(part), f"{path}.{name}") for name, part in properties.items()
            }
        if isinstance(values := source.get("additionalProperties"), Mapping):
            made["additionalProperties"] = self.convert(values, f"{path}{{}}")
        if "items" in source:
            made["items"] = self.convert(_mapping(source["items"]), f"{path}[]")
        _keep_useful_default(made)
        _check_bound(made, path)
        return made

    def _resolve(self, given: Mapping[str, object], path: str) -> Schema:
        """Return the schema without references, null and numeric exclusive bounds; what stands beside them wins."""
        schema = dict(given)
        if reference := schema.pop("$ref", None):
            name = str(reference).removeprefix("#/$defs/")
            return self._resolve(_mapping(self._definitions[name]), path) | schema
        if schema.get("x-kubernetes-int-or-string"):
            schema.pop("anyOf", None)
        if options := schema.pop("anyOf", None):
            present = [part for part in _list(options) if part != {"type": "null"}]
            if len(present) != 1:
                raise NotStructural(f"{path}: alternatives cannot be expressed")
            schema = self._resolve(_mapping(present[0]), path) | schema
        if schema.get("default", "") is None:
            del schema["default"]
        for bound, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            if isinstance(value := schema.pop(bound, None), int):
                schema[inclusive] = value + step
        return schema


def _keep_useful_default(schema: Schema) -> None:
    """Drop empty defaults; an object's default is {} where its fields have defaults, which the API server fills in."""
    default = schema.get("default")
    if isinstance(default, dict):
        parts = _mapping(schema.get("properties", {})).values()
        default = {} if any("default" in _mapping(part) for part in parts) else None
        schema["default"] = default
    if default is None or default in ([], ""):
        schema.pop("default", None)


def _check_bound(schema: Schema, path: str) -> None:
    kind = "map" if "additionalProperties" in schema else schema.get("type")
    bound = _BOUNDS.get(str(kind))
    if bound and bound not in schema and "enum" not in schema and "format" not in schema:
        raise NotStructural(f"{path}: has no {bound}")


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise NotStructural(f"expected an object, found {value!r}")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise NotStructural(f"expected a list, found {value!r}")
    return value
