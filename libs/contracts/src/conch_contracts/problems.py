"""Turns what pydantic says about a bad object of the API into sentences for its author."""

import copy
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with an object, and where."""

    path: tuple[str | int, ...]
    message: str

    @property
    def field(self) -> str:
        """Return the path as its author would write it: `spec.generation.badWords[0]`."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return text.removeprefix(".")


class InvalidObject(Exception):
    """An object that is not what it should be; `problems` says why, one entry per fault."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"{p.field}: {p.message}" if p.path else p.message for p in problems))
        self.problems = problems


def problems_of(error: ValidationError, wanted: type[BaseModel]) -> tuple[Problem, ...]:
    """Return what is wrong with an object that should be of this type."""
    return tuple(_problem(detail, wanted) for detail in error.errors())


def without_unknown_fields(
    data: Mapping[str, object], wanted: type[BaseModel]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return an object without the fields that this type does not know, and what these are called."""
    kept, unknown = copy.deepcopy(dict(data)), []
    try:
        wanted.model_validate(kept)
    except ValidationError as error:
        for detail in error.errors():
            if detail["type"] == "extra_forbidden":
                _remove(kept, detail["loc"])
                unknown.append(Problem(detail["loc"], "").field)
    return kept, tuple(unknown)


def _remove(data: Any, path: tuple[str | int, ...]) -> None:
    for step in path[:-1]:
        data = data[step]
    del data[path[-1]]


def _problem(detail: ErrorDetails, wanted: type[BaseModel]) -> Problem:
    path = detail["loc"]
    match detail["type"]:
        case "extra_forbidden":
            return Problem(path, "unknown field" + _did_you_mean(path, wanted))
        case "missing":
            return Problem(path, "is required")
        case "value_error":
            return Problem(path, detail["msg"].removeprefix("Value error, "))
        case "string_pattern_mismatch":
            return Problem(path, f'"{detail["input"]}" does not match {detail["ctx"]["pattern"]}')
        case "model_type" | "model_attributes_type" if (part := _part_of(path, wanted)) is not None:
            return Problem(path, f"must be an object with {_known(part)}, found {_shown(detail['input'])}")
        case _:
            message = detail["msg"][:1].lower() + detail["msg"][1:]
            return Problem(path, f"{message}, found {_shown(detail['input'])}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _did_you_mean(path: tuple[str | int, ...], wanted: type[BaseModel]) -> str:
    """Return a hint from the fields of the object that the unknown one stands in."""
    part = _part_of(path[:-1], wanted)
    if part is None:
        return ""
    close = difflib.get_close_matches(str(path[-1]), _fields(part), n=1, cutoff=0.6)
    return f", did you mean {close[0]}?" if close else f"; known here: {_known(part)}"


def _known(part: type[BaseModel]) -> str:
    return ", ".join(_fields(part))


def _fields(part: type[BaseModel]) -> Mapping[str, FieldInfo]:
    return {field.alias or name: field for name, field in part.model_fields.items()}


def _part_of(path: Sequence[str | int], wanted: type[BaseModel]) -> type[BaseModel] | None:
    """Return the type of the object at a path; None where there is none."""
    part: type[BaseModel] | None = wanted
    for step in path:
        if isinstance(step, str) and part is not None:
            field = _fields(part).get(step)
            part = None if field is None else next(_parts(field.annotation), None)
    return part


def _parts(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the types of objects in an annotation, those of a list's items too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _parts(inner)
