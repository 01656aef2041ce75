"""The scalar types of the API, and the strict object that every part of a spec is.

The API holds no floats: decimals and durations are strings, so that what a user wrote survives every round trip.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    StrictBool,
    StrictInt,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from conch_contracts.spec.rule_types import Obeys, Rule, Transition, matching, rules_of, validations_of

_DURATION_PATTERN = r"^([0-9]{1,4}h)?([0-9]{1,6}m)?([0-9]{1,7}s)?([0-9]{1,9}ms)?$"
_DURATION = re.compile(r"(?:([0-9]{1,4})h)?(?:([0-9]{1,6})m(?!s))?(?:([0-9]{1,7})s)?(?:([0-9]{1,9})ms)?")
_UNIT_SECONDS = (3600.0, 60.0, 1.0, 0.001)
_DECIMAL_PATTERN = r"^[0-9]+(\.[0-9]+)?$"
_MAX_DECIMAL = 32


class SpecPart(BaseModel):
    """A frozen object with camelCase fields that obeys its rules; a field that it does not know is refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        ignored_types=(Rule, Transition),
    )

    @model_validator(mode="after")
    def _obeys_its_rules(self) -> Self:
        broken = next((rule for rule in rules_of(type(self)) if not rule.holds(self)), None)
        if broken is not None:
            raise ValueError(broken.message)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the rules in CEL to the JSON schema."""
        schema = handler(core_schema)
        if validations := validations_of(cls):
            handler.resolve_ref_schema(schema)["x-kubernetes-validations"] = validations
        return schema


def parse_duration(value: object) -> float:
    """Return the seconds that a string such as "30s", "10m", "1m30s" or "500ms" stands for."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    groups = match.groups() if match is not None else ()
    seconds = sum(int(part) * unit for part, unit in zip(groups, _UNIT_SECONDS, strict=False) if part)
    if not 0 < seconds <= 86_400:
        raise ValueError(f'{_DURATION_MESSAGE}, found "{value}"')
    return seconds


def format_duration(seconds: float) -> str:
    """Return the shortest string that `parse_duration` reads as these seconds."""
    for unit, name in ((3600, "h"), (60, "m"), (1, "s")):
        if seconds % unit == 0:
            return f"{int(seconds // unit)}{name}"
    return f"{round(seconds * 1000)}ms"


def parse_decimal(value: object) -> Decimal:
    """Return the number that a decimal string stands for."""
    if isinstance(value, Decimal):
        return value
    if not isinstance(value, str):
        meant = isinstance(value, int | float) and _is_decimal(str(value))
        raise ValueError(
            f'must be a decimal in quotes: "{value}"' if meant else 'must be a decimal in quotes, such as "0.7"'
        )
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise ValueError(f'must be a decimal in quotes, such as "0.7", found "{value}"') from None
    if not number.is_finite():
        raise ValueError(f"must be a finite number, found {value}")
    if not _is_decimal(value):
        raise ValueError(f'must be a decimal such as "0.7", without sign or exponent, found "{value}"')
    return number


def _is_decimal(text: str) -> bool:
    return len(text) <= _MAX_DECIMAL and re.fullmatch(_DECIMAL_PATTERN, text) is not None


def within(low: int, high: int, *, low_too: bool) -> Obeys:
    """Return what a DecimalString is annotated with so that it lies between two numbers."""
    compare, text = (">=", f"{low} to {high}") if low_too else (">", f"more than {low} and at most {high}")
    return Obeys(
        Rule(
            cel=f"self.matches(r'{_DECIMAL_PATTERN}') && double(self) {compare} {low}.0 && double(self) <= {high}.0",
            message=f'must be {text}, in quotes, such as "0.7"',
            holds=lambda value: low <= value <= high and (low_too or value != low),
        )
    )


_DURATION_RULE = (
    f"self.matches('{_DURATION_PATTERN}') && duration(self) > duration('0s') && duration(self) <= duration('24h')"
)
_DURATION_MESSAGE = "must be a duration of more than zero and at most 24h, such as 30s, 10m, 1m30s or 500ms"

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 2,
            "maxLength": 32,
            "x-kubernetes-validations": [{"rule": _DURATION_RULE, "message": _DURATION_MESSAGE}],
        }
    ),
]
"""Seconds in Python, a string such as `30s` in the API."""

DecimalString = Annotated[
    Decimal,
    BeforeValidator(parse_decimal),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "maxLength": _MAX_DECIMAL}),
]
"""A decimal in Python, a string such as `"0.7"` in the API."""

Integer = StrictInt
Flag = StrictBool

ObjectName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$", max_length=253)
]
"""The name of another object in the ModelDeployment's namespace."""

MAX_NAME = 40
NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
SHORT_NAME_RULE = f"size(self.metadata.name) <= {MAX_NAME} && self.metadata.name.matches('{NAME_PATTERN}')"
"""In CEL: the name of a whole object is a ShortName."""
ShortName = Annotated[str, Field(pattern=NAME_PATTERN, max_length=MAX_NAME)]
"""The name of one of Conch's own objects, from which names of others are made."""

DataKey = Annotated[str, Field(pattern=r"^\.?[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=253)]
"""A key of a ConfigMap or a Secret."""

_PATH_PART = "[A-Za-z0-9_@+-][A-Za-z0-9._@+ -]*"
RelativePath = Annotated[
    str,
    Field(max_length=1024),
    matching(
        f"{_PATH_PART}(/{_PATH_PART})*",
        "must be a path below the root, such as team/model: no slash at its ends, and no part that begins with a dot",
    ),
]
"""A folder below something."""
