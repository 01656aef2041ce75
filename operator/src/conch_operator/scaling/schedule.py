"""Pure: the minimum that the clock asks for."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from conch_contracts.spec.scaling import ScheduleSpec

_MINUTE = timedelta(minutes=1)


def scheduled_minimum(schedules: Iterable[ScheduleSpec], unix_s: float, ahead_s: float) -> int:
    """Return how many engines the schedules ask for now, or within the time that a start takes."""
    moments = (unix_s, unix_s + ahead_s)
    return max((one.min for one in schedules if any(holds(one.cron, one.time_zone, at) for at in moments)), default=0)


def holds(cron: str, time_zone: str, unix_s: float) -> bool:
    """Return whether an expression names the minute of this moment."""
    return _names(cron, time_zone, int(unix_s // 60))


@lru_cache(maxsize=4096)
def _names(cron: str, time_zone: str, minute: int) -> bool:
    # As a clock on the wall shows it: with a zone, CronSim leaves out the minute in which summer time begins or ends.
    local = datetime.fromtimestamp(minute * 60, ZoneInfo(time_zone)).replace(tzinfo=None)
    try:
        return next(CronSim(cron, local - _MINUTE)) == local
    except (CronSimError, StopIteration):  # a day that never comes, such as the 31st of February
        return False
