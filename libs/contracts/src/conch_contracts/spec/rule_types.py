"""Rules that span several fields, each written twice: in CEL for the API server, in Python for everybody else.

Both forms stand side by side in the class that they are about, and share one message, which names the field and the
fix. `SpecPart` checks the Python form and writes the CEL form into the JSON schema; one table of accepted and refused
objects is run through both. A Transition has no Python form here: it compares an edit with what was there before.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

Part = TypeVar("Part", bound=BaseModel)
Validation = dict[str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold for one part of a spec."""

    cel: str
    message: str
    holds: Callable[[Any], bool]

    def validation(self) -> Validation:
        """Return the entry of `x-kubernetes-validations`."""
        return {"rule": self.cel, "message": self.message}


@dataclass(frozen=True, slots=True)
class Obeys:
    """Put behind a type in Annotated: its values obey a rule, whose `self` is the value."""

    rule: Rule

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check the rule once the value has its type."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the rule in CEL to the JSON schema."""
        described = handler(schema)
        known = described.get("x-kubernetes-validations", [])
        return {**described, "x-kubernetes-validations": [*known, self.rule.validation()]}

    def _check(self, value: object) -> object:
        if not self.rule.holds(value):
            raise ValueError(self.rule.message)
        return value


@dataclass(frozen=True, slots=True)
class Transition:
    """What an edit must not change; CEL's `oldSelf` is the part before the edit."""

    cel: str
    message: str

    def validation(self) -> Validation:
        """Return the entry of `x-kubernetes-validations`."""
        return {"rule": self.cel, "message": self.message}


def rule(*, cel: str, message: str) -> Callable[[Callable[[Part], bool]], Rule]:
    """Make a rule of the method that is its Python form."""
    return lambda holds: Rule(cel, message, holds)


def one_of(*fields: str, hint: str = "") -> Rule:
    """Return the rule that exactly one of these fields is set; the names are those of the API."""
    present = ", ".join(f"has(self.{field})" for field in fields)
    listed = f"{', '.join(fields[:-1])} and {fields[-1]}"
    return Rule(
        f"[{present}].filter(isSet, isSet).size() == 1",
        f"set exactly one of {listed}{hint}",
        lambda part: len(set(fields) & set(fields_set_in(part))) == 1,
    )


def fields_set_in(part: BaseModel) -> tuple[str, ...]:
    """Return the API's names of the fields that are not null."""
    names = type(part).model_fields.items()
    return tuple(field.alias or name for name, field in names if part.__dict__[name] is not None)


def matching(pattern: str, message: str) -> Obeys:
    """Return the rule that a text matches an expression as a whole, said in words instead of in the expression."""
    compiled = re.compile(pattern)
    return Obeys(Rule(f"self.matches(r'^({pattern})$')", message, lambda text: compiled.fullmatch(text) is not None))


def rules_of(part: type[BaseModel]) -> tuple[Rule, ...]:
    """Return the rules of a class and of the classes that it extends, in the order in which they are written."""
    return tuple(found for kind in reversed(part.__mro__) for found in vars(kind).values() if isinstance(found, Rule))


def validations_of(part: type[BaseModel]) -> list[Validation]:
    """Return all that the API server must check about a part, edits included."""
    found = [value for kind in reversed(part.__mro__) for value in vars(kind).values()]
    return [value.validation() for value in found if isinstance(value, Rule | Transition)]
