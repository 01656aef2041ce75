import gc
from collections.abc import Iterator

import pytest

from conch_operator.kubernetes.long_lived import AGAIN_S, LongLived
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


def test_what_is_there_is_walked_no_more_but_once_in_a_while() -> None:
    clock, node = FakeClock(), Node()
    long_lived = LongLived(clock)
    long_lived.settled()
    frozen = gc.get_freeze_count()
    assert frozen > 0
    del node
    gc.collect()
    assert Node.ended == 0, "a collection does not look at it"
    clock.advance(AGAIN_S - 1)
    long_lived.settled()
    assert Node.ended == 0
    clock.advance(1)
    long_lived.settled()
    assert Node.ended == 1, "garbage does not stay for ever"
    assert gc.get_freeze_count() > 0


def test_what_is_there_is_walked_no_more_where_many_models_have_come() -> None:
    long_lived, counts = LongLived(FakeClock()), []
    for models in (3, 11, 12, 21, 22, 1000, 1050, 1061):
        kept = Node()
        before = gc.get_freeze_count()
        long_lived.counted(models)
        counts.append(gc.get_freeze_count() > before)
        del kept
    assert counts == [False, True, False, False, True, True, False, True]
