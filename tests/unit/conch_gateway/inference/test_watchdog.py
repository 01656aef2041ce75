import pytest

from conch_gateway.inference.watchdog import RequestActivity, WatchdogLimits, WatchdogVerdict, decide

LIMITS = WatchdogLimits(deadline=200, keep_alive_s=15)


@pytest.mark.parametrize(
    ("activity", "verdict"),
    [
        (RequestActivity(sent=90), WatchdogVerdict.NOTHING),
        (RequestActivity(sent=80), WatchdogVerdict.KEEP_ALIVE),
        (RequestActivity(sent=80, sending=80), WatchdogVerdict.NOTHING),
        (RequestActivity(sent=60, asked=60, patience_s=30, sending=70), WatchdogVerdict.NOTHING),
        (RequestActivity(sent=60, asked=70, patience_s=30), WatchdogVerdict.WORKER_UNRESPONSIVE),
        (RequestActivity(sent=90, asked=90, patience_s=30), WatchdogVerdict.NOTHING),
    ],
)
def test_a_look_at_the_clock_says_what_to_do(activity, verdict):
    assert decide(100, activity, LIMITS) is verdict
    late = WatchdogVerdict.NOTHING if activity.sending else WatchdogVerdict.OVERDUE
    assert decide(200, activity, LIMITS) is late
