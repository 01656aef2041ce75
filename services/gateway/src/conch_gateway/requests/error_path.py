"""Where in a request an error of pydantic lies; pure.

Pydantic's location of an error also holds the names of the types that it tried. Only the request's own type tells which
steps these are: an object may have a member that is called like a type.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conch_contracts.openai.api_model import ApiModel

Step = int | str
Schema = Mapping[str, Any]
"""One of pydantic-core's schemas."""

_AROUND_ANOTHER = {"model", "default", "nullable", "function-before", "function-after", "function-wrap", "definitions"}
_ANY: Schema = {"type": "any"}


def error_path(kind: type[ApiModel], location: Sequence[Step], document: object, *, missing: bool) -> tuple[str, ...]:
    """Return the location as a path into the document, which ends in what is missing, or in what is there."""
    schema: Schema = kind.__pydantic_core_schema__
    named = {entry["ref"]: entry for entry in schema.get("definitions", ())}
    return tuple(_present(next(_read(schema, location, named), ()), document, missing=missing))


def _read(schema: Schema, location: Sequence[Step], named: Mapping[str, Schema]) -> Iterator[tuple[Step, ...]]:
    """Yield the paths that the location can mean for a value of this schema."""
    if not location:
        yield ()
        return
    step, rest = location[0], location[1:]
    match schema["type"]:
        case "definition-ref":
            yield from _read(named[schema["schema_ref"]], location, named)
        case kind if kind in _AROUND_ANOTHER:
            yield from _read(schema["schema"], location, named)
        case "model-fields" if step in schema["fields"]:
            yield from ((step, *path) for path in _read(schema["fields"][step]["schema"], rest, named))
        case "model-fields" if not rest:  # a field that the model does not have
            yield (step,)
        case "list":
            yield from ((step, *path) for path in _read(schema.get("items_schema", _ANY), rest, named))
        case "dict" if rest == ("[key]",):
            yield (step,)
        case "dict":
            yield from ((step, *path) for path in _read(schema.get("values_schema", _ANY), rest, named))
        case "tagged-union" if step in schema["choices"]:
            yield from _read(schema["choices"][step], rest, named)
        case "union":
            for choice in schema["choices"]:
                yield from _read(choice, rest, named)
        case "any":  # a check of our own has found it, and names its place
            yield tuple(location)
        case _:
            return


def _present(path: Sequence[Step], document: object, *, missing: bool) -> Iterator[str]:
    here = document
    for index, step in enumerate(path):
        match here, step:
            case dict(), str() if step in here:
                here = here[step]
            case list(), int() if step < len(here):
                here = here[step]
            case dict(), str() if missing and index == len(path) - 1:
                pass
            case _:
                return
        yield str(step)
