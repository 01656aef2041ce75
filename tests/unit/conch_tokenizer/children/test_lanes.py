"""What a service sees of the work on lanes, and what it makes of it."""

import asyncio
import os
import socket
from collections.abc import Iterator

import pytest

from conch_contracts.messages.tokenizer_frames import Operation, ReplyKind
from conch_kit import frames
from conch_tokenizer.children import lanes as lanes_module
from conch_tokenizer.children.connection import ChildConnection
from conch_tokenizer.children.lanes import Lanes
from conch_tokenizer.children.limits import TimeLimits
from conch_tokenizer.children.service_orders import LaneOrder
from conch_tokenizer.children.work_board import WorkBoard, WorkOutcome, board_memory
from conch_tokenizer.errors import ChildHung, ChildLost, WorkStage
from testkit.waiting import eventually

PATIENT = TimeLimits(template_s=60, encode_s=60, load_s=60)


@pytest.fixture
def board() -> WorkBoard:
    with board_memory(3) as memory:
        return WorkBoard(memory)


@pytest.fixture
def given() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give a socket over which a service hands connections over, and the child's end of it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


async def child(row: int, hand_over: socket.socket | None = None) -> ChildConnection:
    connection = ChildConnection(row, lambda: None, row=row, hand_over=hand_over)
    connection.data_received(frames.pack(ReplyKind.READY, str(os.getpid()).encode()))
    return connection


def test_two_maps_of_one_board_show_the_same(board: WorkBoard) -> None:
    with board_memory(2) as memory:
        ours, theirs = WorkBoard(memory), WorkBoard(memory)
    theirs.row(1).begin(7, 4_294_967_295)
    row = ours.row(1)
    assert (row.working, row.request, row.stage) == (True, (7, 4_294_967_295), WorkStage.BEGUN)
    theirs.row(1).encoding()
    assert (row.stage, row.picture) == (WorkStage.ENCODING, None)
    theirs.row(1).encoding(picture=0)
    assert row.picture == 0
    theirs.row(1).begin(7, 8)
    assert (row.stage, row.picture) == (WorkStage.BEGUN, None)
    theirs.row(1).end()
    assert (row.working, row.worked_s) == (False, 0)
    theirs.row(1).count(Operation.PREPARE, WorkOutcome.OK, 0.003)
    assert sum(row.counts(Operation.PREPARE)) == 1 + 0.003 + 1
    row.clear()
    assert sum(row.counts(Operation.PREPARE)) == 1 + 0.003 + 1
    assert not any(ours.row(0).counts(Operation.PREPARE))


@pytest.mark.parametrize(
    ("stage", "picture"), [(WorkStage.BEGUN, None), (WorkStage.ENCODING, None), (WorkStage.ENCODING, 3)]
)
async def test_a_child_that_works_too_long_is_ended_and_its_request_blamed(
    board: WorkBoard, stage: WorkStage, picture: int | None
) -> None:
    limits = TimeLimits(
        template_s=0 if stage is WorkStage.BEGUN else 60, encode_s=0 if stage is WorkStage.ENCODING else 60, load_s=60
    )
    hung, sound = await child(1), await child(2)
    async with Lanes(board, 2, limits) as lanes:
        lanes.started(hung)
        lanes.started(sound)
        board.row(1).begin(5, 6)
        if stage is WorkStage.ENCODING:
            board.row(1).encoding(picture)
        await eventually(hung.lost.is_set, "the end of the child")
        assert not sound.lost.is_set()
        lanes.ended(hung)
        outcome = await lanes.outcome(5, 6)
        assert isinstance(outcome, ChildHung)
        assert (outcome.stage, outcome.picture) == (stage, picture)
        assert await lanes.outcome(5, 7) is None
        assert not board.row(1).working


async def test_a_child_that_got_no_processor_is_ended_and_its_request_not_blamed(board: WorkBoard) -> None:
    hung = await child(1)
    async with Lanes(board, 2, TimeLimits(template_s=60, encode_s=0.5, load_s=60)) as lanes:
        lanes.started(hung)
        board.row(1).begin(5, 6)
        board.row(1).encoding()
        await eventually(hung.lost.is_set, "the end of the child")
        lanes.ended(hung)
        outcome = await lanes.outcome(5, 6)
    assert isinstance(outcome, ChildHung)
    assert outcome.stage is WorkStage.STARVED


async def test_a_child_that_works_too_long_is_ended_once(board: WorkBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "_LOOK_S", 0.001)
    killed: list[int] = []
    hung = ChildConnection(1, lambda: killed.append(1), row=1)
    hung.ready.set_result(None)
    async with Lanes(board, 2, TimeLimits(template_s=0, encode_s=60, load_s=60)) as lanes:
        lanes.started(hung)
        board.row(1).begin(5, 6)
        await eventually(hung.lost.is_set, "the end of the child")
        await asyncio.sleep(0.05)  # several looks
    assert killed == [1]


async def test_nobody_looks_on_any_more_once_the_service_ends(board: WorkBoard) -> None:
    async with Lanes(board, 1, PATIENT):
        assert len(asyncio.all_tasks()) == 2
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_outcomes_that_nobody_asks_for_are_forgotten(board: WorkBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "_KEPT", 2)
    lanes = Lanes(board, 2, PATIENT)
    for number in range(3):
        ended = await child(1)
        lanes.started(ended)
        board.row(1).begin(5, number)
        lanes.ended(ended)
    assert await lanes.outcome(5, 0) is None
    for number in (1, 2):
        assert isinstance(await lanes.outcome(5, number), ChildLost)
        assert await lanes.outcome(5, number) is None  # it is told once


async def test_an_end_that_does_not_come_is_not_waited_for(
    board: WorkBoard, given: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes_module, "_END_S", 0.01)
    lanes = Lanes(board, 1, PATIENT)
    lanes.started(await child(1, given[0]))
    with socket.socket() as connection:
        lanes.give(connection.fileno())
    LaneOrder.receive(given[1])[1].close()
    assert await asyncio.wait_for(lanes.outcome(1, 1), 30) is None


async def test_a_lane_goes_to_the_child_that_has_the_fewest_and_ends_where_that_has_ended(
    board: WorkBoard, given: tuple[socket.socket, socket.socket]
) -> None:
    lanes, gone = Lanes(board, 2, PATIENT), await child(2)
    for each in (await child(1, given[0]), gone):
        lanes.started(each)
    board.row(1).lanes = 1
    gone.lost.set()
    with socket.socket() as connection:
        lanes.give(connection.fileno())
    given[1].setblocking(False)  # noqa: FBT003
    with pytest.raises(BlockingIOError):
        given[1].recv(100)
    assert lanes.child(1) is None


async def test_the_request_that_a_child_was_at_when_it_ended_is_known(
    board: WorkBoard, given: tuple[socket.socket, socket.socket]
) -> None:
    ended, idle = await child(1, given[0]), await child(2)
    async with Lanes(board, 2, PATIENT) as lanes:
        lanes.started(ended)
        assert not lanes.complete
        lanes.started(idle)
        assert lanes.complete
        board.row(2).lanes = 1
        with socket.socket() as connection:
            lanes.give(connection.fileno())
        order, received = LaneOrder.receive(given[1])
        received.close()
        assert (order.number, order.of) == (1, 2)
        assert lanes.child(1) is ended
        board.row(1).begin(1, 9)
        board.row(1).encoding(picture=2)
        asked = asyncio.create_task(lanes.outcome(1, 9))  # before the end of the child was noticed here
        await asyncio.sleep(0)
        ended.lost.set()
        lanes.ended(ended)
        outcome = await asked
        assert isinstance(outcome, ChildLost)
        assert outcome.picture == 2
        assert lanes.child(1) is None
        assert not lanes.complete
