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
