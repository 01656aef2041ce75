"""What is left of a time that is used in pieces."""

from conch_gateway.placement.time_left import TimeLeft
from testkit.clock import FakeClock


def test_only_what_passes_inside_counts_and_all_of_it():
    clock = FakeClock()
    left = TimeLeft(10.0, clock)
    clock.advance(100.0)
    for _ in range(2):
        with left:
            clock.advance(3.0)
        clock.advance(100.0)
    assert left.seconds() == 4.0


def test_what_is_left_can_be_seen_while_it_passes():
    clock = FakeClock()
    left = TimeLeft(10.0, clock)
    with left:
        clock.advance(3.0)
        assert left.seconds() == 7.0
        clock.advance(3.0)
    assert left.seconds() == 4.0


def test_there_is_never_less_than_nothing():
    clock = FakeClock()
    left = TimeLeft(1.0, clock)
    with left:
        clock.advance(3.0)
        assert left.seconds() == 0.0
    assert left.seconds() == 0.0
