import gc
from collections.abc import Iterator

import pytest

from conch_operator.kubernetes.long_lived import AGAIN_S, PATIENCE_S, QUIET_S, LongLived
from testkit.clock import FakeClock


class Node:
    """Something that may be part of a cycle, so that only a collection ends it."""

    ended = 0

    def __init__(self) -> None:
        self.itself: Node | None = self

    def __del__(self) -> None:
        Node.ended += 1


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    Node.ended = 0
    yield
    gc.unfreeze()
    gc.collect()


def test_what_is_there_is_walked_no_more_but_once_in_a_while() -> None:
    clock, node = FakeClock(), Node()
    long_lived = LongLived(clock)
    clock.advance(QUIET_S)
    long_lived.round_ended(settled=True)
    frozen = gc.get_freeze_count()
    assert frozen > 0
    del node
    gc.collect()
    assert Node.ended == 0, "a collection does not look at it"
    clock.advance(AGAIN_S - 1)
    long_lived.round_ended(settled=True)
    assert Node.ended == 0
    clock.advance(1)
    long_lived.round_ended(settled=True)
    assert Node.ended == 1, "garbage does not stay for ever"
    assert gc.get_freeze_count() > 0


def test_what_has_come_since_the_last_round_is_walked_no_more_after_the_next() -> None:
    long_lived, counts = LongLived(FakeClock()), []
    kept = []
    for _ in range(3):
        kept.append(Node())
        before = gc.get_freeze_count()
        long_lived.round_ended(settled=False)
        counts.append(gc.get_freeze_count() > before)
    assert counts == [True] * 3


def test_garbage_does_not_stay_for_ever_where_some_model_is_never_settled() -> None:
    clock, node = FakeClock(), Node()
    long_lived = LongLived(clock)
    long_lived.round_ended(settled=False)
    del node
    clock.advance(PATIENCE_S - 1)
    long_lived.round_ended(settled=False)
    assert Node.ended == 0
    clock.advance(1)
    long_lived.round_ended(settled=False)
    assert Node.ended == 1


def test_all_is_collected_only_when_nothing_has_gone_on_for_a_while() -> None:
    clock, node = FakeClock(), Node()
    long_lived = LongLived(clock)
    clock.advance(QUIET_S)
    long_lived.round_ended(settled=False)
    del node
    clock.advance(QUIET_S - 1)
    long_lived.round_ended(settled=True)
    assert Node.ended == 0, "the last model has only just settled"
    clock.advance(1)
    long_lived.round_ended(settled=True)
    assert Node.ended == 1
