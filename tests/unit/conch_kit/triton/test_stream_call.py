"""One call against what a server may send: whole and cut messages, statuses, and the end of its connection."""

import asyncio
import struct
from itertools import pairwise

import grpc
import pytest
from tritonclient.grpc.service_pb2 import ModelInferResponse, ModelStreamInferResponse

from conch_kit.http2 import frames
from conch_kit.http2.connection import STREAM_WINDOW_BYTES
from conch_kit.http2.errors import StreamFailed
from conch_kit.http2.frames import ErrorCode
from conch_kit.http2.header_blocks import Headers
from conch_kit.triton.message_limits import MAX_MESSAGE_BYTES
from conch_kit.triton.message_parsing import MessageTooLarge
from conch_kit.triton.stream_call import MESSAGES_A_TURN, QUEUED_MESSAGES, CallFailed, StreamCall

HEAD = {":status": "200", "content-type": "application/grpc"}
OK = {"grpc-status": "0", "grpc-message": ""}
EMPTY = b"\0" * 5


class Connection:
    """What a call needs of a connection; tells what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.opens = True

    def open(self, receiver: StreamCall, head: bytes, body: bytes) -> None:
        if self.opens:
            receiver.opened(7)

    def cancel(self, stream: int) -> None:
        self.asked.append(("cancel", stream))

    def withdraw(self, receiver: StreamCall) -> None:
        self.asked.append(("withdraw", 0))

    def give_back(self, stream: int, size: int) -> None:
        self.asked.append(("give back", size))


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture
def call(connection: Connection) -> StreamCall:
    opened = StreamCall()
    opened.send(connection, b"head", b"body")  # type: ignore[arg-type]
    return opened


def _message(text: str) -> bytes:
    return _prefixed(ModelStreamInferResponse(error_message=text).SerializeToString())


def _prefixed(message: bytes, compressed: int = 0) -> bytes:
    return struct.pack(">BL", compressed, len(message)) + message


async def _texts(call: StreamCall) -> list[str]:
    texts = []
    while (message := await call.read()) is not None:
        texts.append(message.error_message)
    return texts


@pytest.mark.parametrize("cut", [1, 3, 5, 6, 11, 1000])
async def test_messages_are_whole_wherever_they_are_cut(call: StreamCall, cut: int) -> None:
    sent = _message("one") + _message("") + _message("x" * 300) + _message("end")
    call.headers(HEAD)
    for at in range(0, len(sent), cut):
        call.data(sent[at : at + cut])
    call.headers(OK)
    call.ended(None)
    assert await _texts(call) == ["one", "", "x" * 300, "end"]
    assert call.done()


async def test_a_reader_waits_for_a_message_and_for_the_end(call: StreamCall) -> None:
    reader = asyncio.ensure_future(_texts(call))
    await asyncio.sleep(0)
    call.headers(HEAD)
    call.data(_message("one"))
    await asyncio.sleep(0)
    call.data(_message("two"))
    call.headers(OK)
    call.ended(None)
    assert await reader == ["one", "two"]


def _of(head: Headers, trailers: Headers | None = None, error: StreamFailed | None = None) -> StreamCall:
    call = StreamCall()
    call.send(Connection(), b"", b"")  # type: ignore[arg-type]
    if head:
        call.headers(head)
    if trailers is not None:
        call.headers(trailers)
    call.ended(error)
    return call


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (_of(HEAD, {"grpc-status": "3", "grpc-message": "na%C3%AFve 100%"}), "INVALID_ARGUMENT", "naïve 100%"),
        (_of(HEAD | {"grpc-status": "14"}), "UNAVAILABLE", "ended with UNAVAILABLE"),
        (_of(HEAD, {"grpc-status": "99"}), "UNKNOWN", "UNKNOWN"),
        (_of(HEAD, {"grpc-status": "x"}), "UNKNOWN", "UNKNOWN"),
        (_of(HEAD, {}), "UNKNOWN", "without a status"),
        (_of(HEAD, None), "UNKNOWN", "without a status"),
        (_of({":status": "404"}), "UNIMPLEMENTED", "answered with 404"),
        (_of({":status": "503", "content-type": "text/html"}), "UNAVAILABLE", "answered with 503"),
        (_of({":status": "200", "content-type": "text/html"}), "UNKNOWN", "does not speak gRPC"),
        (_of({":status": "503", "grpc-status": "8", "grpc-message": "full"}), "RESOURCE_EXHAUSTED", "full"),
        (_of({}, None, StreamFailed("lost")), "UNAVAILABLE", "lost"),
        (_of(HEAD, None, StreamFailed("why", ErrorCode.REFUSED_STREAM)), "UNAVAILABLE", "why"),
        (_of(HEAD, None, StreamFailed("why", ErrorCode.CANCEL)), "CANCELLED", "why"),
        (_of(HEAD, None, StreamFailed("why", ErrorCode.ENHANCE_YOUR_CALM)), "RESOURCE_EXHAUSTED", "why"),
        (_of(HEAD, None, StreamFailed("why", 999)), "INTERNAL", "why"),
    ],
)
async def test_the_end_has_the_status_that_the_server_means(call: StreamCall, code: str, message: str) -> None:
    with pytest.raises(CallFailed, match=message) as caught:
        await call.read()
    assert caught.value.code is grpc.StatusCode[code]


async def test_what_is_only_informational_is_no_head(call: StreamCall) -> None:
    call.headers({":status": "103"})
    call.headers(HEAD)
    call.data(_message("one"))
    call.headers(OK)
    call.ended(None)
    assert await _texts(call) == ["one"]


async def test_messages_before_an_error_are_read_first(call: StreamCall) -> None:
    call.headers(HEAD)
    call.data(_message("one"))
    call.ended(StreamFailed("lost"))
    message = await call.read()
    assert message is not None
    assert message.error_message == "one"
    with pytest.raises(CallFailed, match="lost"):
        await call.read()


async def test_an_end_within_a_message_is_an_error(call: StreamCall) -> None:
    call.headers(HEAD)
    call.data(_message("one")[:-1])
    call.headers(OK)
    call.ended(None)
    with pytest.raises(CallFailed, match="middle of a message"):
        await call.read()


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (_prefixed(b"zip", compressed=1), CallFailed),
        (struct.pack(">BL", 0, MAX_MESSAGE_BYTES + 1), MessageTooLarge),
    ],
)
async def test_what_cannot_be_taken_ends_the_call_at_once(
    call: StreamCall, connection: Connection, sent: bytes, error: type[Exception]
) -> None:
    call.headers(HEAD)
    call.data(sent)
    assert connection.asked == [("cancel", 7)]
    with pytest.raises(error):
        await call.read()


@pytest.mark.parametrize("ended", [False, True])
async def test_a_message_that_cannot_be_read_ends_the_call(
    call: StreamCall, connection: Connection, ended: bool
) -> None:
    call.headers(HEAD)
    call.data(_prefixed(b"\xff") + _message("behind it"))
    if ended:
        call.headers(OK)
        call.ended(None)
    with pytest.raises(CallFailed, match="cannot be read") as caught:
        await call.read()
    assert caught.value.code is grpc.StatusCode.INTERNAL
    assert call.done()
    assert connection.asked == ([] if ended else [("cancel", 7)])


async def test_a_message_that_would_grow_too_much_ends_the_call(call: StreamCall, connection: Connection) -> None:
    call.headers(HEAD)
    call.data(_prefixed(b"\x12\x80\x80\x40" + b"\x2a\x00" * (1 << 19)) + _message("behind it"))
    with pytest.raises(MessageTooLarge):
        await call.read()
    assert call.done()
    assert connection.asked[-1] == ("cancel", 7)


async def test_a_window_comes_back_when_messages_are_read(call: StreamCall, connection: Connection) -> None:
    call.headers(HEAD)
    for _ in range(8):
        call.data(_message("x" * (STREAM_WINDOW_BYTES // 10)))
    assert connection.asked == []
    for _ in range(5):
        await call.read()
    (given,) = connection.asked
    assert given[0] == "give back"
    assert given[1] >= STREAM_WINDOW_BYTES // 2


async def test_a_message_larger_than_the_window_gets_its_room(call: StreamCall, connection: Connection) -> None:
    call.headers(HEAD)
    tensors = ModelInferResponse(raw_output_contents=[bytes(3 * STREAM_WINDOW_BYTES)])
    message = _prefixed(ModelStreamInferResponse(infer_response=tensors).SerializeToString())
    may_send = STREAM_WINDOW_BYTES
    while message:
        size = min(frames.FRAME_BYTES, may_send)
        assert size > 0, "The server waits for room, and the reader for the rest of the message."
        call.data(message[:size])
        message, may_send = message[size:], may_send - size
        may_send += sum(given for _, given in connection.asked)
        connection.asked.clear()
    assert (await call.read()) is not None


@pytest.mark.parametrize("a_piece", [1, 3000])
async def test_empty_messages_take_room_until_they_are_read(
    call: StreamCall, connection: Connection, a_piece: int
) -> None:
    call.headers(HEAD)
    piece = EMPTY * a_piece
    pieces = STREAM_WINDOW_BYTES // len(piece)
    for _ in range(pieces):
        call.data(piece)
    assert connection.asked == []
    for _ in range(pieces * a_piece):
        await call.read()
    given = [size for _, size in connection.asked]
    assert STREAM_WINDOW_BYTES // 2 <= sum(given) <= pieces * len(piece)
    assert min(given) >= STREAM_WINDOW_BYTES // 2


@pytest.mark.parametrize("a_piece", [1, 1000])
async def test_a_reader_who_always_finds_more_lets_others_run(call: StreamCall, a_piece: int) -> None:
    call.headers(HEAD)
    for _ in range(1000 // a_piece):
        call.data(EMPTY * a_piece)
    call.headers(OK)
    call.ended(None)
    read = 0

    async def reads() -> None:
        nonlocal read
        while await call.read() is not None:
            read += 1

    reader = asyncio.ensure_future(reads())
    seen = [0]
    while not reader.done():
        await asyncio.sleep(0)
        seen.append(read)
    assert read == 1000
    assert max(after - before for before, after in pairwise(seen)) <= MESSAGES_A_TURN


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(
    ("sent", "match"),
    [
        (_prefixed(b"zip", compressed=1), "compressed"),
        (struct.pack(">BL", 0, MAX_MESSAGE_BYTES + 1), "are allowed"),
        (_message("one")[:-1], "middle of a message"),
    ],
)
async def test_what_cannot_be_taken_behind_a_full_queue_is_told_after_it(
    call: StreamCall, connection: Connection, sent: bytes, match: str, *, ended: bool
) -> None:
    call.headers(HEAD)
    call.data(EMPTY * 3 * QUEUED_MESSAGES + sent)
    if ended:
        call.headers(OK)
        call.ended(None)
    for _ in range(3 * QUEUED_MESSAGES):
        assert await call.read() is not None
    if not ended:
        asyncio.get_running_loop().call_soon(call.ended, None)
        call.headers(OK)
    for _ in range(2):
        with pytest.raises((CallFailed, MessageTooLarge), match=match):
            await call.read()
    assert call.done()


async def test_a_call_that_is_cancelled_between_two_turns_gives_nothing_more(call: StreamCall) -> None:
    call.headers(HEAD)
    call.data(EMPTY * 3 * MESSAGES_A_TURN)
    for _ in range(MESSAGES_A_TURN):
        await call.read()
    asyncio.get_running_loop().call_soon(call.cancel)
    with pytest.raises(asyncio.CancelledError):
        await call.read()


@pytest.mark.parametrize(("opens", "asked"), [(True, ("cancel", 7)), (False, ("withdraw", 0))])
async def test_cancelling_ends_the_stream_and_its_reader(
    connection: Connection, opens: bool, asked: tuple[str, int]
) -> None:
    connection.opens = opens
    call = StreamCall()
    call.send(connection, b"", b"")  # type: ignore[arg-type]
    ended: list[StreamCall] = []
    call.add_done_callback(ended.append)
    reader = asyncio.ensure_future(call.read())
    await asyncio.sleep(0)
    call.cancel()
    assert connection.asked == [asked]
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert ended == [call]
    call.cancel()
    call.ended(None)
    assert ended == [call]


async def test_a_call_that_is_cancelled_before_there_is_a_connection_is_never_sent(connection: Connection) -> None:
    call = StreamCall()
    call.cancel()
    call.send(connection, b"", b"")  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        await call.read()
