"""Minimums by the clock."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from conch_contracts.spec.scaling import ScheduleSpec
from conch_operator.scaling.schedule import holds, scheduled_minimum


def at(text: str, zone: str = "Europe/Berlin") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("cron", "moment", "named"),
    [
        ("* 8-17 * * 1-5", "2026-11-24 08:00", True),  # a Tuesday
        ("* 8-17 * * 1-5", "2026-11-24 17:59:59", True),
        ("* 8-17 * * 1-5", "2026-11-24 18:00", False),
        ("* 8-17 * * 1-5", "2026-11-22 12:00", False),
        ("* 8-17 * * 1-5", "2026-07-21 08:00", True),  # in summer time too
        ("*/15 * * * *", "2026-11-24 08:30:30", True),
        ("*/15 * * * *", "2026-11-24 08:31", False),
        ("* * 31 2 *", "2026-02-28 12:00", False),  # never
        ("* 22-23,0-5 * * *", "2026-11-24 23:59:59", True),
        ("* 22-23,0-5 * * *", "2026-11-25 00:00", True),
        ("* 22-23,0-5 * * *", "2026-11-25 06:00", False),
        ("* 0-5 * * 1", "2026-11-22 23:59:59", False),  # a Sunday
        ("* 0-5 * * 1", "2026-11-23 00:00", True),
        ("* * 1 1 *", "2026-12-31 23:59:59", False),
        ("* * 1 1 *", "2027-01-01 00:00", True),
        ("* 1-5 * * *", "2026-03-29 03:00", True),  # summer time begins at 2:00
        ("* 1-5 * * *", "2026-10-25 02:30", True),  # twice on this day
        ("* 1-5 * * *", "2026-10-25 03:00", True),
    ],
)
def test_an_expression_names_minutes_in_its_zone(cron: str, moment: str, named: bool) -> None:
    assert holds(cron, "Europe/Berlin", at(moment)) is named


def test_engines_start_so_much_earlier_as_a_start_takes_and_the_largest_minimum_counts() -> None:
    day = ScheduleSpec.model_validate({"cron": "* 8-17 * * *", "timeZone": "Europe/Berlin", "min": 2})
    noon = ScheduleSpec.model_validate({"cron": "* 12 * * *", "timeZone": "Europe/Berlin", "min": 5})
    both = (day, noon)
    assert scheduled_minimum(both, at("2026-11-24 07:58"), ahead_s=60) == 0
    assert scheduled_minimum(both, at("2026-11-24 07:58"), ahead_s=120) == 2
    assert scheduled_minimum(both, at("2026-11-24 12:30"), ahead_s=0) == 5


def test_engines_start_before_midnight_for_what_begins_with_the_day_of_the_zone() -> None:
    monday = ScheduleSpec.model_validate({"cron": "* 0-5 * * 1", "timeZone": "Europe/Berlin", "min": 2})
    assert scheduled_minimum((monday,), at("2026-11-22 23:58"), ahead_s=60) == 0
    assert scheduled_minimum((monday,), at("2026-11-22 23:59"), ahead_s=60) == 2
    assert scheduled_minimum((monday,), at("2026-11-23 05:59"), ahead_s=60) == 2  # they stay until it ends
    assert scheduled_minimum((monday,), at("2026-11-23 06:00"), ahead_s=60) == 0
    assert scheduled_minimum((monday,), at("2026-11-23 00:30", "Etc/UTC") - 2 * 3600, ahead_s=0) == 0
    assert scheduled_minimum((monday,), at("2026-11-23 00:30", "Etc/UTC") - 3600, ahead_s=0) == 2
