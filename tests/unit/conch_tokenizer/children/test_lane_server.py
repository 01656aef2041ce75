"""What a child owes its service and the others while it answers on lanes, and what a lane leaves behind."""

import select
import socket
from collections.abc import Callable, Iterator

import pytest

from conch_contracts.messages.tokenizer_frames import Operation, ReplyKind
from conch_kit.frames import Frame, FrameReader, pack
from conch_tokenizer.children import lane_server
from conch_tokenizer.children.lane_server import LaneServer
from conch_tokenizer.children.work_board import WorkBoard, board_memory

READ = select.POLLIN | select.POLLHUP


class Lane:
    """A lane with both of its ends; `answer` is what the child does with a request."""

    def __init__(self, answer: Callable[[Frame], bytes] | None = None) -> None:
        self.gateway, self._wire = socket.socketpair()
        self.gateway.setblocking(False)  # noqa: FBT003
        self.answered: list[Frame] = []
        self.for_the_service = 0
        self._answer = answer or (lambda frame: frame.payload)
        self._poller = select.poll()
        with board_memory(2) as memory:
            self.row = WorkBoard(memory).row(1)
        self._lanes = LaneServer(self._poller, self._do, self.row, self._look_at_the_service)
        self._lanes.open(self._wire, 1, 1)
        assert self.gateway.recv(1000).startswith(b"HTTP/1.1 101 ")

    def _do(self, frame: Frame) -> tuple[ReplyKind, bytes]:
        self.answered.append(frame)
        return ReplyKind.DONE, self._answer(frame)

    def _look_at_the_service(self) -> None:
        self.for_the_service += 1

    def ask(self, *payloads: bytes) -> None:
        self.gateway.sendall(b"".join(pack(Operation.PREPARE, each, at + 1) for at, each in enumerate(payloads)))

    def serve(self) -> bool:
        """Do once what there is to do; return whether there was anything."""
        found = self._poller.poll(0)
        for descriptor, _ in found:
            self._lanes.serve(descriptor)
        return bool(found)

    def events(self) -> int:
        """Return what the child looks out for on the lane and finds."""
        return sum(event for _, event in self._poller.poll(0))

    def close(self) -> None:
        self.gateway.close()
        while self.serve():
            pass
        self._wire.close()


@pytest.fixture
def lane() -> Iterator[Lane]:
    made = Lane()
    yield made
    made.close()


def test_a_child_says_what_it_is_at_and_that_it_is_done(lane: Lane) -> None:
    seen: list[tuple[bool, tuple[int, int], int]] = []

    def answer(frame: Frame) -> bytes:
        seen.append((lane.row.working, lane.row.request, lane.row.in_flight))
        return b""

    lane._answer = answer
    lane.ask(b"one", b"two")
    lane.serve()
    assert seen == [(True, (1, 1), 2), (True, (1, 2), 1)]
    assert (lane.row.working, lane.row.in_flight) == (False, 0)


def test_a_request_of_the_service_is_answered_between_those_of_a_lane(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_server, "_FLUSH_S", -1.0)
    lane.ask(b"one", b"two", b"three")
    lane.serve()
    assert lane.for_the_service == 3


def test_quick_answers_go_out_together(lane: Lane) -> None:
    lane.ask(b"one", b"two", b"three")
    lane.serve()
    assert lane.for_the_service == 0
    assert [frame.payload for frame in FrameReader().feed(lane.gateway.recv(1000))] == [b"one", b"two", b"three"]


def test_nothing_more_is_done_for_a_gateway_that_has_gone(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_server, "_FLUSH_S", -1.0)
    lane.ask(b"one", b"two", b"three")
    lane.gateway.close()
    lane.serve()
    assert [frame.payload for frame in lane.answered] == [b"one"]
    assert (lane.row.lanes, lane.row.in_flight) == (0, 0)


def test_a_lane_that_ends_is_no_lane_any_more(lane: Lane) -> None:
    assert lane.row.lanes == 1
    lane.gateway.close()
    lane.serve()
    assert lane.row.lanes == 0
    assert not lane.serve()


def test_the_requests_of_a_gateway_that_reads_no_answers_wait(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_server, "_UNSENT_BYTES", 1000)
    large = b"x" * 4_000_000  # more than the sockets hold
    lane._answer = lambda _: large
    lane.ask(b"one")
    lane.serve()
    lane.ask(b"two")
    assert not lane.events() & READ
    taken = lane.gateway.recv(1_000_000)
    lane.serve()  # there is room for a little more, and far too much waits for it yet
    assert [frame.payload for frame in lane.answered] == [b"one"]
    while len(taken) < len(large):
        taken += lane.gateway.recv(1_000_000)
        lane.serve()
    while lane.serve() and len(lane.answered) < 2:
        pass
    assert [frame.payload for frame in lane.answered] == [b"one", b"two"]
    assert FrameReader().feed(taken[: len(pack(0, large))])[0].payload == large
