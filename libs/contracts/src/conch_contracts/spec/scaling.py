"""How many engines a model has, where the load decides: bounds, when to rest, and minimums by the clock."""

import re
from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from conch_contracts.spec.fields import DecimalString, Duration, Integer, SpecPart, within
from conch_contracts.spec.rule_types import Obeys, Rule, rule

_RANGES = {
    "minute": "([0-5]?[0-9])",
    "hour": "(1?[0-9]|2[0-3])",
    "day of the month": "([1-9]|[12][0-9]|3[01])",
    "month": "([1-9]|1[0-2])",
    "day of the week": "[0-7]",
}
_STEP = "(/[1-9][0-9]?)?"


def _field_of(number: str) -> str:
    one = rf"(\*|{number}(-{number})?){_STEP}"
    return f"{one}(,{one})*"


_CRON_PATTERN = f"^{' '.join(_field_of(number) for number in _RANGES.values())}$"
_CRON = re.compile(_CRON_PATTERN)
_CRON_MESSAGE = (
    "must be five fields of numbers with one space between them (minute, hour, day of the month, month, day of the "
    "week with 0 for Sunday), each *, a number, a range from low to high, a step or a list of these, such as "
    "* 8-17 * * 1-5"
)
_NO_DAY_PATTERN = (
    r"^[^ ]+ [^ ]+ (3[01](-3[01])?(,3[01](-3[01])?)* 2(,2)*|31(-31)?(,31(-31)?)* (2|4|6|9|11)(,(2|4|6|9|11))*) [*]$"
)
"""The 30th and 31st of February alone, and the 31st of shorter months alone."""
_NO_DAY = re.compile(_NO_DAY_PATTERN)
_NO_DAY_MESSAGE = "names days that no month has which it names, so it would never hold: name other days or months"
_ZONE_PATTERN = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"
_ZONE = re.compile(_ZONE_PATTERN)
_ZONE_MESSAGE = "must be the name of a time zone, such as Europe/Berlin, Asia/Shanghai or Etc/UTC"


def _is_cron(text: str) -> bool:
    ranges = re.findall("([0-9]+)-([0-9]+)", text)
    return _CRON.fullmatch(text) is not None and all(int(low) <= int(high) for low, high in ranges)


def _is_zone(text: str) -> bool:
    if not _ZONE.fullmatch(text) or text == "Local":
        return False
    try:
        ZoneInfo(text)
    except (LookupError, ValueError, OSError):  # a folder of zones is an OSError
        return False
    return True


CronExpression = Annotated[
    str,
    Field(max_length=100),
    Obeys(
        Rule(
            cel=f"self.matches(r'{_CRON_PATTERN}') && self.findAll('[0-9]+-[0-9]+').all(range, "
            "int(range.split('-')[0]) <= int(range.split('-')[1]))",
            message=_CRON_MESSAGE,
            holds=_is_cron,
        )
    ),
    Obeys(
        Rule(
            cel=f"!self.matches(r'{_NO_DAY_PATTERN}')",
            message=_NO_DAY_MESSAGE,
            holds=lambda text: _NO_DAY.fullmatch(text) is None,
        )
    ),
]
"""The minutes in which something holds."""

TimeZone = Annotated[
    str,
    Field(max_length=64),
    Obeys(
        Rule(
            # With a zone that it does not know the expression fails, which refuses the object as well.
            cel=f"self.matches(r'{_ZONE_PATTERN}') && self != 'Local' && "
            "timestamp('2000-01-01T00:00:00Z').getFullYear(self) > 0",
            message=_ZONE_MESSAGE,
            holds=_is_zone,
        )
    ),
]
"""A name of the IANA's database."""


class ScheduleSpec(SpecPart):
    """A minimum by the clock."""

    cron: CronExpression
    """The minutes in which the minimum holds: `* 8-17 * * 1-5` is from 8:00 to 17:59 on working days. Five fields of
    numbers: minute, hour, day of the month, month, day of the week (0 or 7 is Sunday)."""
    time_zone: TimeZone = "Etc/UTC"
    """The time zone of `cron`, such as Europe/Berlin. Default: Etc/UTC."""
    min: Annotated[Integer, Field(ge=1, le=1000)]
    """How many engines there are at least in these minutes. Engines are started so much earlier as a start takes."""


class ScalingSpec(SpecPart):
    """How many engines there are, by what gateways have to do. It takes the place of `replicas`."""

    min_replicas: Annotated[Integer, Field(ge=0, le=1000)] = 1
    """How many engines there are at least. With 0 the model rests without an engine once it has been idle for
    `idleAfter`; a request, a call to wake it or a schedule starts one. Default: 1."""
    max_replicas: Annotated[Integer, Field(ge=1, le=1000)]
    """How many engines there are at most."""
    target: Annotated[DecimalString, within(0, 1, low_too=False)] | None = None
    """Which part of its engines' slots a model should fill; more requests start another engine. In quotes. Default:
    "0.7" for kind LLM, "0.8" for others."""
    idle_after: Duration = 300.0
    """How long no request may have been there or ended before the last engine goes; twice the time of a start, where
    that is longer. Sooner where no node has room for an engine of another model that somebody waits for. It matters
    where minReplicas is 0. Default: 5m."""
    hold: Annotated[Integer, Field(ge=1, le=100_000)] = 200
    """Requests that may wait at each gateway for an engine to start; one more is a 429. Default: 200."""
    schedules: Annotated[tuple[ScheduleSpec, ...], Field(max_length=16)] = ()
    """Minimums by the clock. Where several hold, the largest counts; maxReplicas bounds them."""

    @rule(
        cel="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
        message="minReplicas is more than maxReplicas: lower it, or raise maxReplicas",
    )
    def _least_is_within_most(self) -> bool:
        return self.min_replicas <= self.max_replicas

    @rule(
        cel="!has(self.schedules) || self.schedules.all(one, one.min <= self.maxReplicas)",
        message="schedules holds a min that is more than maxReplicas: lower it, or raise maxReplicas",
    )
    def _schedules_are_within_most(self) -> bool:
        return all(one.min <= self.max_replicas for one in self.schedules)

    def target_of(self, *, of_language: bool) -> Decimal:
        """Return which part of the slots is to be filled."""
        return self.target if self.target is not None else usual_target(of_language=of_language)


def usual_target(*, of_language: bool) -> Decimal:
    """Return which part of the slots is to be filled where nobody says it."""
    return Decimal("0.7" if of_language else "0.8")
