import pytest

from conch_runtime_cpu.engine.response_queue import PartialResponse, ResponseQueue
from conch_runtime_cpu.engine.scheduler import Event, FinishedRequest, FinishReason, RequestKey
from conch_runtime_cpu.errors import EngineStopped
from testkit.clock import FakeClock

A, B, C = RequestKey(1), RequestKey(2), RequestKey(3)
LENGTH = FinishedRequest(FinishReason.LENGTH)


class _NoChannel:
    def send(self, response: PartialResponse) -> None:
        raise AssertionError(response)

    def cancelled(self) -> bool:
        raise AssertionError


def _queue(*keys: RequestKey, clock: FakeClock | None = None) -> ResponseQueue:
    queue = ResponseQueue(clock or FakeClock())
    for key in keys:
        queue.open(key, _NoChannel())
    return queue


def _taken(queue: ResponseQueue) -> list[tuple[int, list[int], bool]]:
    found = []
    while (taken := queue.take(0)) is not None:
        stream, response = taken
        found.append((stream.key, response.tokens, response.final))
    return found


def test_everything_since_the_last_message_goes_into_one() -> None:
    queue = _queue(A)
    queue.publish([Event(A, 1)])
    assert _taken(queue) == [(A, [1], False)]
    for token in (2, 3, 4):
        queue.publish([Event(A, token)])
    assert _taken(queue) == [(A, [2, 3, 4], False)]


def test_first_tokens_and_endings_go_before_the_rest() -> None:
    queue = _queue(A, B, C)
    queue.publish([Event(A, 1), Event(B, 1)])
    assert len(_taken(queue)) == 2
    queue.publish([Event(A, 2), Event(B, 2, finish=LENGTH), Event(C, 1)])
    assert _taken(queue) == [(B, [2], True), (C, [1], False), (A, [2], False)]


def test_an_ending_overtakes_with_all_that_came_before_it() -> None:
    queue = _queue(A, B)
    queue.publish([Event(A, 1), Event(B, 1)])
    _taken(queue)
    queue.publish([Event(A, 2), Event(B, 2)])
    queue.publish([Event(B, 3, finish=LENGTH)])
    assert _taken(queue) == [(B, [2, 3], True), (A, [2], False)]


def test_with_many_requests_each_waits_a_little_between_two_messages() -> None:
    clock, keys = FakeClock(), [RequestKey(number) for number in range(10)]
    queue = _queue(*keys, clock=clock)
    queue.publish([Event(key, 1) for key in keys])
    assert len(_taken(queue)) == 10
    queue.publish([Event(key, 2) for key in keys])
    assert _taken(queue) == []
    queue.publish([Event(keys[0], 3), Event(keys[1], 3, finish=LENGTH)])
    assert _taken(queue) == [(keys[1], [2, 3], True)]
    clock.advance(0.02)
    assert _taken(queue)[:2] == [(keys[0], [2, 3], False), (keys[2], [2], False)]
    clock.advance(0.02)
    queue.publish([Event(keys[0], 4)])
    assert _taken(queue) == [(keys[0], [4], False)]


def test_events_of_a_discarded_request_are_dropped() -> None:
    queue = _queue(A)
    queue.publish([Event(A, 1)])
    queue.discard(A)
    queue.publish([Event(A, 2)])
    assert queue.take(0) is None


def test_stopping_fails_every_open_request_once_and_refuses_new_ones() -> None:
    queue = _queue(A, B)
    queue.publish([Event(A, 1, finish=LENGTH)])
    queue.stop("crashed")
    queue.stop("ending")
    first, second = queue.take(0), queue.take(0)
    assert first is not None
    assert second is not None
    assert (first[1].finish, first[1].error) == (LENGTH, None)
    assert (second[1].finish, second[1].error) == (None, "crashed")
    assert queue.drained
    with pytest.raises(EngineStopped, match="crashed"):
        queue.open(C, _NoChannel())
