import asyncio
import os
import socket
import time

import pytest

from conch_contracts.messages.tokenizer_frames import Operation, ReplyKind
from conch_kit import frames
from conch_kit.frames import Frame
from conch_tokenizer.children.connection import ChildConnection
from conch_tokenizer.children.limits import TimeLimits
from conch_tokenizer.children.service_orders import LaneOrder
from conch_tokenizer.errors import ChildError, ChildHung, ChildLost, WorkStage
from testkit.waiting import eventually

PATIENT = TimeLimits(template_s=60, encode_s=60, load_s=60)


class FakeTransport(asyncio.Transport):
    """Keeps what is written; `abort` closes it as a socket would."""

    def __init__(self, connection: ChildConnection) -> None:
        super().__init__()
        self.written = b""
        self._connection = connection
        connection.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


class Killed:
    """Counts how often the child was killed."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def connect() -> tuple[ChildConnection, FakeTransport, Killed]:
    killed = Killed()
    connection = ChildConnection(1, killed)
    return connection, FakeTransport(connection), killed


def say(connection: ChildConnection, reply: ReplyKind, payload: bytes = b"") -> None:
    connection.data_received(frames.pack(reply, payload))


async def test_a_request_is_sent_whole_and_gets_its_reply() -> None:
    connection, transport, killed = connect()
    reply = asyncio.create_task(connection.ask(Operation.PREPARE, b"{}", PATIENT))
    await asyncio.sleep(0)
    assert transport.written == frames.pack(Operation.PREPARE, b"{}")
    say(connection, ReplyKind.DONE, b"[1]")
    assert await reply == Frame(ReplyKind.DONE, b"[1]")
    assert killed.times == 0


async def test_a_child_is_ready_when_it_says_so() -> None:
    connection, _, _ = connect()
    assert not connection.ready.done()
    say(connection, ReplyKind.READY, b"17")
    assert connection.ready.done()


@pytest.mark.parametrize(
    ("limits", "announced", "stage"),
    [
        (TimeLimits(template_s=0, encode_s=60, load_s=60), False, WorkStage.BEGUN),
        (TimeLimits(template_s=60, encode_s=0, load_s=60), True, WorkStage.ENCODING),
    ],
)
async def test_a_child_without_an_answer_in_time_is_killed(
    limits: TimeLimits, announced: bool, stage: WorkStage
) -> None:
    connection, _, killed = connect()
    reply = asyncio.create_task(connection.ask(Operation.PREPARE, b"{}", limits))
    await asyncio.sleep(0)
    if announced:
        say(connection, ReplyKind.ENCODING)
    with pytest.raises(ChildHung) as caught:
        await reply
    assert caught.value.stage is stage
    assert killed.times == 1
    assert connection.lost.is_set()


@pytest.mark.parametrize(("computes", "stage"), [(True, WorkStage.ENCODING), (False, WorkStage.STARVED)])
async def test_a_child_that_encodes_is_told_from_one_that_gets_no_processor(computes: bool, stage: WorkStage) -> None:
    connection, _, _ = connect()
    say(connection, ReplyKind.READY, str(os.getpid()).encode())
    limits = TimeLimits(template_s=60, encode_s=0.5, load_s=60)
    reply = asyncio.create_task(connection.ask(Operation.PREPARE, b"{}", limits))
    await asyncio.sleep(0)
    say(connection, ReplyKind.ENCODING)
    begun = time.process_time()
    while computes and time.process_time() - begun < limits.encode_s:
        pass
    with pytest.raises(ChildHung) as caught:
        await reply
    assert caught.value.stage is stage


async def test_a_request_has_one_outcome_though_its_child_is_killed_and_then_ends() -> None:
    connection, _, _ = connect()
    outcomes: list[Frame | ChildError] = []
    connection.begin(Operation.PREPARE, b"{}", TimeLimits(template_s=0, encode_s=60, load_s=60), outcomes.append)
    await connection.lost.wait()
    connection.ready.add_done_callback(lambda ready: ready.exception())
    await eventually(connection.ready.done, "the end of the socket")
    assert [type(outcome) for outcome in outcomes] == [ChildHung]


async def test_the_time_for_the_template_ends_when_encoding_begins() -> None:
    connection, _, killed = connect()
    limits = TimeLimits(template_s=0.001, encode_s=60, load_s=60)
    reply = asyncio.create_task(connection.ask(Operation.PREPARE, b"{}", limits))
    await asyncio.sleep(0)
    say(connection, ReplyKind.ENCODING)
    say(connection, ReplyKind.DONE)
    assert (await reply).kind == ReplyKind.DONE
    assert killed.times == 0


@pytest.mark.parametrize(("payload", "picture"), [(b"", None), (b"0", 0), (b"12", 12)])
async def test_the_picture_that_a_child_was_at_is_known(payload: bytes, picture: int | None) -> None:
    hung, lost = connect()[0], connect()[0]
    limits = TimeLimits(template_s=60, encode_s=0, load_s=60)
    replies = [
        asyncio.create_task(hung.ask(Operation.PREPARE, b"{}", limits)),
        asyncio.create_task(lost.ask(Operation.PREPARE, b"{}", PATIENT)),
    ]
    await asyncio.sleep(0)
    for connection in (hung, lost):
        say(connection, ReplyKind.READY, b"17")
        say(connection, ReplyKind.ENCODING, b"7")
        say(connection, ReplyKind.ENCODING, payload)
    lost.connection_lost(None)
    for failure in await asyncio.gather(*replies, return_exceptions=True):
        assert isinstance(failure, ChildHung | ChildLost)
        assert failure.picture == picture


async def test_a_child_that_has_answered_is_not_killed_when_the_time_is_over() -> None:
    connection, _, killed = connect()
    limits = TimeLimits(template_s=0.02, encode_s=60, load_s=60)
    reply = asyncio.create_task(connection.ask(Operation.PREPARE, b"{}", limits))
    await asyncio.sleep(0)
    say(connection, ReplyKind.DONE)
    await reply
    await asyncio.sleep(0.06)  # longer than it might have taken
    assert killed.times == 0


async def test_the_picture_of_one_request_is_not_blamed_for_the_next() -> None:
    connection, _, _ = connect()
    for number in range(2):
        reply = asyncio.create_task(connection.ask(Operation.PREPARE, b"{}", PATIENT))
        await asyncio.sleep(0)
        if number == 0:
            say(connection, ReplyKind.ENCODING, b"3")
            say(connection, ReplyKind.DONE)
            await reply
    say(connection, ReplyKind.READY, b"17")
    connection.connection_lost(None)
    with pytest.raises(ChildLost) as failure:
        await reply
    assert failure.value.picture is None


async def test_the_end_of_a_child_fails_its_request() -> None:
    connection, _, _ = connect()
    reply = asyncio.create_task(connection.ask(Operation.PREPARE, b"{}", PATIENT))
    await asyncio.sleep(0)
    say(connection, ReplyKind.READY, b"17")
    connection.connection_lost(None)
    with pytest.raises(ChildLost):
        await reply
    with pytest.raises(ChildLost):
        await connection.ask(Operation.PREPARE, b"{}", PATIENT)


async def test_a_cancelled_request_kills_the_child_that_works_for_nobody() -> None:
    connection, _, killed = connect()
    reply = asyncio.create_task(connection.ask(Operation.PREPARE, b"{}", PATIENT))
    await asyncio.sleep(0)
    reply.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reply
    assert killed.times == 1


async def test_a_child_that_was_killed_gets_no_lane() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection = ChildConnection(1, lambda: None, hand_over=ours)
    connection.kill()
    with ours, theirs, socket.socket() as lane, pytest.raises(ChildLost):
        connection.take_lane(lane.fileno(), LaneOrder(1, 1))


async def test_a_child_that_takes_no_lane_is_lost() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection = ChildConnection(1, lambda: None, hand_over=ours)
    theirs.close()
    with socket.socket() as lane:
        with pytest.raises(ChildLost):
            connection.take_lane(lane.fileno(), LaneOrder(1, 1))
        connection.kill()
        with pytest.raises(ChildLost):
            connection.take_lane(lane.fileno(), LaneOrder(2, 1))
        connection.connection_lost(None)
        assert ours.fileno() == -1
    await asyncio.gather(connection.ready, return_exceptions=True)


@pytest.mark.parametrize(("reads", "stage"), [(False, WorkStage.UNREAD), (True, WorkStage.BEGUN)])
async def test_a_child_that_has_not_looked_at_its_request_is_told_from_one_that_is_at_it(
    reads: bool, stage: WorkStage
) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)  # noqa: FBT003
    _, connection = await asyncio.get_running_loop().create_unix_connection(
        lambda: ChildConnection(1, lambda: None), sock=ours
    )
    with theirs:
        reply = asyncio.create_task(
            connection.ask(Operation.PREPARE, b"{}", TimeLimits(template_s=0.05, encode_s=60, load_s=60))
        )
        await asyncio.sleep(0)
        if reads:
            assert theirs.recv(1000)
        with pytest.raises(ChildHung) as caught:
            await reply
    assert caught.value.stage is stage
    await asyncio.gather(connection.ready, return_exceptions=True)
