"""The scalar types of the API, and the strict object that every part of a spec is.

The API holds no floats: decimals and durations are strings, so that what a user wrote survives every round trip.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, StrictBool, StrictInt, WithJsonSchema
from pydantic.alias_generators import to_camel

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?")
_UNIT_SECONDS = (3600.0, 60.0, 1.0, 0.001)


class SpecPart(BaseModel):
    """A frozen object with camelCase fields; a field that it does not know is refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, use_attribute_docstrings=True, allow_inf_nan=False
    )


def parse_duration(value: object) -> float:
    """Return the seconds that a string such as "30s", "10m", "1m30s" or "500ms" stands for."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        raise ValueError(f'must be a duration in quotes or bare such as 30s, 10m, 1m30s or 500ms, found "{value}"')
    seconds = sum(int(part) * unit for part, unit in zip(match.groups(), _UNIT_SECONDS, strict=True) if part)
    if not 0 < seconds <= 86_400:
        raise ValueError(f"must be more than zero and at most 24h, found {value}")
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
        raise ValueError(f'must be a decimal in quotes, such as "{value}"')
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise ValueError(f'must be a decimal in quotes, such as "0.7", found "{value}"') from None
    if not number.is_finite():
        raise ValueError(f"must be a finite number, found {value}")
    return number


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$", "maxLength": 32}),
]
"""Seconds in Python, a string such as `30s` in the API."""

DecimalString = Annotated[
    Decimal,
    BeforeValidator(parse_decimal),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$", "maxLength": 32}),
]
"""A decimal in Python, a string such as `"0.7"` in the API."""

Integer = StrictInt
Flag = StrictBool
