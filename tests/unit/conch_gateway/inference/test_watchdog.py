import pytest

from conch_gateway.inference.watchdog import Beat, RequestActivity, WatchdogLimits, decide

LIMITS = WatchdogLimits(deadline=200, keep_alive_s=15, write_stall_s=30)


@pytest.mark.parametrize(
    ("progress", "beat"),
    [
        (RequestActivity(sent=90), Beat.NOTHING),
        (RequestActivity(sent=80), Beat.KEEP_ALIVE),
        (RequestActivity(sent=80, sending=80), Beat.NOTHING),
        (RequestActivity(sent=60, sending=70), Beat.CLIENT_STALLED),
        (RequestActivity(sent=60, asked=70, patience_s=30), Beat.WORKER_SILENT),
        (RequestActivity(sent=90, asked=90, patience_s=30), Beat.NOTHING),
    ],
)
def test_a_look_at_the_clock_says_what_to_do(progress, beat):
    assert decide(100, progress, LIMITS) is beat
    assert decide(200, progress, LIMITS) is Beat.OVERDUE
