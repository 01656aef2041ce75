import pytest

from conch_runtime_cpu.engine.response_queue import News, Outbox
from conch_runtime_cpu.engine.scheduler import Event, FinishedRequest, FinishReason, RequestKey
from conch_runtime_cpu.errors import EngineStopped
from testkit.clock import FakeClock

A, B, C = RequestKey(1), RequestKey(2), RequestKey(3)
LENGTH = FinishedRequest(FinishReason.LENGTH)


class _NoChannel:
    def send(self, news: News) -> None:
        raise AssertionError(news)

    def cancelled(self) -> bool:
        raise AssertionError


def _outbox(*keys: RequestKey, clock: FakeClock | None = None) -> Outbox:
    outbox = Outbox(clock or FakeClock())
    for key in keys:
        outbox.open(key, _NoChannel())
    return outbox


def _taken(outbox: Outbox) -> list[tuple[int, list[int], bool]]:
    found = []
    while (taken := outbox.take(0)) is not None:
        mailbox, news = taken
        found.append((mailbox.key, news.tokens, news.final))
    return found


def test_everything_since_the_last_message_goes_into_one() -> None:
    outbox = _outbox(A)
    outbox.publish([Event(A, 1)])
    assert _taken(outbox) == [(A, [1], False)]
    for token in (2, 3, 4):
        outbox.publish([Event(A, token)])
    assert _taken(outbox) == [(A, [2, 3, 4], False)]


def test_first_tokens_and_endings_go_before_the_rest() -> None:
    outbox = _outbox(A, B, C)
    outbox.publish([Event(A, 1), Event(B, 1)])
    assert len(_taken(outbox)) == 2
    outbox.publish([Event(A, 2), Event(B, 2, finish=LENGTH), Event(C, 1)])
    assert _taken(outbox) == [(B, [2], True), (C, [1], False), (A, [2], False)]


def test_an_ending_overtakes_with_all_that_came_before_it() -> None:
    outbox = _outbox(A, B)
    outbox.publish([Event(A, 1), Event(B, 1)])
    _taken(outbox)
    outbox.publish([Event(A, 2), Event(B, 2)])
    outbox.publish([Event(B, 3, finish=LENGTH)])
    assert _taken(outbox) == [(B, [2, 3], True), (A, [2], False)]


def test_with_many_requests_each_waits_a_little_between_two_messages() -> None:
    clock, keys = FakeClock(), [RequestKey(number) for number in range(10)]
    outbox = _outbox(*keys, clock=clock)
    outbox.publish([Event(key, 1) for key in keys])
    assert len(_taken(outbox)) == 10
    outbox.publish([Event(key, 2) for key in keys])
    assert _taken(outbox) == []
    outbox.publish([Event(keys[0], 3), Event(keys[1], 3, finish=LENGTH)])
    assert _taken(outbox) == [(keys[1], [2, 3], True)]
    clock.advance(0.02)
    assert _taken(outbox)[:2] == [(keys[0], [2, 3], False), (keys[2], [2], False)]
    clock.advance(0.02)
    outbox.publish([Event(keys[0], 4)])
    assert _taken(outbox) == [(keys[0], [4], False)]


def test_events_of_a_discarded_request_are_dropped() -> None:
    outbox = _outbox(A)
    outbox.publish([Event(A, 1)])
    outbox.discard(A)
    outbox.publish([Event(A, 2)])
    assert outbox.take(0) is None


def test_stopping_fails_every_open_request_once_and_refuses_new_ones() -> None:
    outbox = _outbox(A, B)
    outbox.publish([Event(A, 1, finish=LENGTH)])
    outbox.stop("crashed")
    outbox.stop("ending")
    first, second = outbox.take(0), outbox.take(0)
    assert first is not None
    assert second is not None
    assert (first[1].finish, first[1].error) == (LENGTH, None)
    assert (second[1].finish, second[1].error) == (None, "crashed")
    assert outbox.drained
    with pytest.raises(EngineStopped, match="crashed"):
        outbox.open(C, _NoChannel())
