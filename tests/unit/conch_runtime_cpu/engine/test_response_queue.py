import math

import pytest

from conch_runtime_cpu.engine.request_key import RequestKey
from conch_runtime_cpu.engine.response_queue import ResponseQueue
from conch_runtime_cpu.engine.response_tensors import PartialResponse
from conch_runtime_cpu.engine.scheduler import FinishedRequest, FinishReason, SequenceEvent
from conch_runtime_cpu.errors import EngineStopped
from testkit.clock import FakeClock

A, B, C = RequestKey(1), RequestKey(2), RequestKey(3)
LENGTH = FinishedRequest(FinishReason.LENGTH)


class _NoChannel:
    def send(self, response: PartialResponse) -> None:
        raise AssertionError(response)

    def cancelled(self) -> bool:
        raise AssertionError


Queue = ResponseQueue[SequenceEvent, PartialResponse]


def _queue(*keys: RequestKey, clock: FakeClock | None = None, sign_of_life_s: float = math.inf) -> Queue:
    queue = Queue(PartialResponse, PartialResponse.add, clock or FakeClock(), sign_of_life_s=sign_of_life_s)
    for key in keys:
        queue.open(key, _NoChannel())
    return queue


def _taken(queue: Queue) -> list[tuple[int, list[int], bool]]:
    found = []
    while (taken := queue.take(0)) is not None:
        stream, response = taken
        found.append((stream.key, response.tokens, response.final))
    return found


def test_everything_since_the_last_message_goes_into_one() -> None:
    queue = _queue(A)
    queue.publish([SequenceEvent(A, 1)])
    assert _taken(queue) == [(A, [1], False)]
    for token in (2, 3, 4):
        queue.publish([SequenceEvent(A, token)])
    assert _taken(queue) == [(A, [2, 3, 4], False)]


def test_first_tokens_and_endings_go_before_the_rest() -> None:
    queue = _queue(A, B, C)
    queue.publish([SequenceEvent(A, 1), SequenceEvent(B, 1)])
    assert len(_taken(queue)) == 2
    queue.publish([SequenceEvent(A, 2), SequenceEvent(B, 2, finish=LENGTH), SequenceEvent(C, 1)])
    assert _taken(queue) == [(B, [2], True), (C, [1], False), (A, [2], False)]


def test_an_ending_overtakes_with_all_that_came_before_it() -> None:
    queue = _queue(A, B)
    queue.publish([SequenceEvent(A, 1), SequenceEvent(B, 1)])
    _taken(queue)
    queue.publish([SequenceEvent(A, 2), SequenceEvent(B, 2)])
    queue.publish([SequenceEvent(B, 3, finish=LENGTH)])
    assert _taken(queue) == [(B, [2, 3], True), (A, [2], False)]


def test_with_many_requests_each_waits_a_little_between_two_messages() -> None:
    clock, keys = FakeClock(), [RequestKey(number) for number in range(10)]
    queue = _queue(*keys, clock=clock)
    queue.publish([SequenceEvent(key, 1) for key in keys])
    assert len(_taken(queue)) == 10
    queue.publish([SequenceEvent(key, 2) for key in keys])
    assert _taken(queue) == []
    queue.publish([SequenceEvent(keys[0], 3), SequenceEvent(keys[1], 3, finish=LENGTH)])
    assert _taken(queue) == [(keys[1], [2, 3], True)]
    clock.advance(0.02)
    assert _taken(queue)[:2] == [(keys[0], [2, 3], False), (keys[2], [2], False)]
    clock.advance(0.02)
    queue.publish([SequenceEvent(keys[0], 4)])
    assert _taken(queue) == [(keys[0], [4], False)]


def test_events_of_a_discarded_request_are_dropped() -> None:
    queue = _queue(A)
    queue.publish([SequenceEvent(A, 1)])
    queue.discard(A)
    queue.publish([SequenceEvent(A, 2)])
    assert queue.take(0) is None


def test_stopping_fails_every_open_request_once_and_refuses_new_ones() -> None:
    queue = _queue(A, B)
    queue.publish([SequenceEvent(A, 1, finish=LENGTH)])
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


def test_who_hears_nothing_for_too_long_gets_a_sign_of_life() -> None:
    clock = FakeClock()
    queue = _queue(A, B, clock=clock, sign_of_life_s=0.5)
    clock.advance(0.4)
    queue.publish([SequenceEvent(A, 1)])
    assert _taken(queue) == [(A, [1], False)]
    clock.advance(0.2)
    assert _taken(queue) == [(B, [], False)]
    clock.advance(0.3)
    assert _taken(queue) == [(A, [], False)]
    clock.advance(0.2)
    queue.publish([SequenceEvent(B, 2, finish=LENGTH)])
    assert _taken(queue) == [(B, [2], True)]
    clock.advance(60)
    assert _taken(queue) == [(A, [], False)]
