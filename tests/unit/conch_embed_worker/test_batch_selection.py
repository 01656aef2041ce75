from collections import deque

import pytest

from conch_contracts.messages.encoding import Row
from conch_embed_worker.batch_selection import BatchLimits, WaitingRows, next_batch, width_of

LIMITS = BatchLimits(rows=4, tokens=1000)


def waiting(*lengths: int, alone: bool = False) -> WaitingRows:
    return WaitingRows([Row(ids=tuple(range(1, length + 1))) for length in lengths], alone)


def taken(queue: deque[WaitingRows], limits: BatchLimits = LIMITS) -> list[list[int]]:
    """Return the lengths of the rows in each batch until the queue is empty."""
    batches = []
    while members := next_batch(queue, limits):
        batches.append([len(member.row.ids) for member in members])
    return batches


@pytest.mark.parametrize(
    ("length", "width"), [(1, 8), (8, 8), (9, 16), (16, 16), (17, 24), (32, 32), (33, 48), (100, 128), (512, 512)]
)
def test_a_width_is_little_more_than_the_length(length: int, width: int) -> None:
    assert width_of(length) == width


def test_an_empty_queue_gives_nothing() -> None:
    assert next_batch(deque(), LIMITS) == []


@pytest.mark.parametrize(
    ("requests", "limits", "batches"),
    [
        pytest.param([(5,)], LIMITS, [[5]], id="one row goes alone"),
        pytest.param([(5, 5, 5, 5, 5)], LIMITS, [[5, 5, 5, 5], [5]], id="at most so many rows"),
        pytest.param([(100, 100, 100)], BatchLimits(4, 256), [[100, 100], [100]], id="at most so many tokens, padded"),
        pytest.param([(600,)], BatchLimits(4, 256), [[600]], id="a longer row goes alone"),
        pytest.param([(5, 500, 5)], LIMITS, [[5, 5], [500]], id="lengths are kept apart"),
        pytest.param([(32, 30, 25, 20, 24)], BatchLimits(9, 1000), [[32, 30, 25, 20, 24]], id="nearly so wide joins"),
        pytest.param([(64, 30)], LIMITS, [[64], [30]], id="half so wide does not"),
        pytest.param([(5,), (6,), (7,)], LIMITS, [[5, 6, 7]], id="requests share"),
    ],
)
def test_rows_go_together(requests: list[tuple[int, ...]], limits: BatchLimits, batches: list[list[int]]) -> None:
    assert taken(deque(waiting(*lengths) for lengths in requests), limits) == batches


def test_a_request_with_many_rows_leaves_room_for_one_with_a_single_row() -> None:
    many, one = waiting(*[5] * 2048), waiting(6)
    queue = deque([many, one])
    owners = [member.owner for member in next_batch(queue, LIMITS)]
    assert owners.count(one) == 1
    assert one not in queue


def test_requests_take_turns_until_a_batch_is_full() -> None:
    many, few = waiting(*[5] * 100), waiting(*[6] * 3)
    queue = deque([many, few])
    assert [member.owner for member in next_batch(queue, BatchLimits(rows=8, tokens=1000))] == [
        *[many, few] * 3,
        many,
        many,
    ]


def test_who_has_led_a_batch_goes_behind_those_who_have_not() -> None:
    short, long, longest = waiting(*[5] * 12), waiting(*[100] * 12), waiting(*[500] * 12)
    queue = deque([short, long, longest])
    owners = [{member.owner for member in next_batch(queue, BatchLimits(4, 10_000))} for _ in range(7)]
    assert owners == [{short}, {long}, {longest}] * 2 + [{short}]


def test_another_length_waits_for_one_batch_and_not_for_all() -> None:
    many, one = waiting(*[5] * 2048), waiting(500)
    queue = deque([many, one])
    assert {member.owner for member in next_batch(queue, LIMITS)} == {many}
    assert {member.owner for member in next_batch(queue, LIMITS)} == {one}


def test_who_is_to_be_alone_shares_with_nobody() -> None:
    first, second = waiting(5, alone=True), waiting(5)
    queue = deque([first, second])
    assert [{member.owner for member in next_batch(queue, LIMITS)} for _ in range(2)] == [{first}, {second}]


def test_rows_that_are_put_back_wait_again() -> None:
    request = waiting(5, 6)
    queue = deque([request])
    members = next_batch(queue, LIMITS)
    request.put_back([member.index for member in members])
    queue.append(request)
    assert taken(queue) == [[5, 6]]
