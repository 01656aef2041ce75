"""What a server may make the connection do: floods end it, an honest server goes on, and others have their turn."""

import asyncio
import struct

import pytest

from conch_kit.http2 import frames
from conch_kit.http2.connection import STREAM_WINDOW_BYTES
from conch_kit.http2.errors import ProtocolViolation
from conch_kit.http2.frames import ErrorCode, FrameKind, Setting
from conch_kit.http2.header_blocks import write_block
from conch_kit.http2.limits import (
    FRAMES_A_TURN,
    IDLE_FRAMES,
    IDLE_FRAMES_A_SECOND,
    MAX_CONTINUATIONS,
    MAX_HELD_ANSWERS,
    MAX_SETTINGS,
    IdleFrames,
)
from conch_kit.http2.outbox import Outbox
from testkit.http.http2_client import ANSWER_HEAD, GREETING, NO_TABLE, STREAM_1_HEAD, TRAILERS, KeptWrites, PlayedClient

PING = frames.frame(FrameKind.PING, 0, 0, b"12345678")
SETTINGS = frames.settings({Setting.INITIAL_WINDOW_SIZE: 65_535})
EMPTY_DATA = frames.frame(FrameKind.DATA, 0, 1)
ONLY_PADDING = frames.frame(FrameKind.DATA, frames.PADDED, 1, b"\x02\0\0")
INFORMATIONAL = frames.frame(FrameKind.HEADERS, frames.END_HEADERS, 1, NO_TABLE + write_block([(":status", "103")]))
UNKNOWN = b"\0\0\x01\x63\xff\0\0\0\x01x"
GOAWAY = frames.frame(FrameKind.GOAWAY, 0, 0, struct.pack(">LL", 1, 0))
LAST = frames.frame(FrameKind.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, write_block(TRAILERS))
MANY_FIELDS = write_block([(f"x-{number}", "") for number in range(100)])
LATE = {
    "trailers": LAST,
    "heads": STREAM_1_HEAD,
    "heads of many fields": frames.frame(FrameKind.HEADERS, frames.END_HEADERS, 1, MANY_FIELDS),
    "heads of many fields in pieces": frames.frame(FrameKind.HEADERS, 0, 1, MANY_FIELDS)
    + frames.frame(FrameKind.CONTINUATION, frames.END_HEADERS, 1, MANY_FIELDS),
    "heads in many pieces": frames.frame(FrameKind.HEADERS, 0, 1)
    + frames.frame(FrameKind.CONTINUATION, 0, 1) * (MAX_CONTINUATIONS - 1)
    + frames.frame(FrameKind.CONTINUATION, frames.END_HEADERS, 1),
}
FLOODS = {
    "pings": PING,
    "answers to pings": frames.frame(FrameKind.PING, frames.ACK, 0, b"12345678"),
    "settings": SETTINGS,
    "answers to settings": frames.frame(FrameKind.SETTINGS, frames.ACK, 0),
    "empty data": EMPTY_DATA,
    "padding": ONLY_PADDING,
    "informational heads": INFORMATIONAL,
    "unknown frames": UNKNOWN,
    "goaways": GOAWAY,
}


@pytest.fixture
async def client() -> PlayedClient:
    return PlayedClient()


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_flood_of_frames_without_content_ends_the_connection(client: PlayedClient, flood: bytes) -> None:
    heard = await client.request()
    answered = await client.hears(GREETING + STREAM_1_HEAD + flood * 2 * IDLE_FRAMES)
    _is_told_to_calm_down(client, answered)
    assert heard.error.code is None
    assert "without content" in str(heard.error)


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
async def test_header_blocks_for_a_stream_that_is_over_end_the_connection(client: PlayedClient, late: bytes) -> None:
    over, other = await client.request(), await client.request()
    answered = await client.hears(GREETING + STREAM_1_HEAD + LAST + late * IDLE_FRAMES)
    _is_told_to_calm_down(client, answered)
    assert (len(over.heads), over.ends) == (2, [None])
    assert "without content" in str(other.error)


async def test_late_header_blocks_count_for_their_fields_and_their_pieces(client: PlayedClient) -> None:
    await client.request()
    late = LATE["heads in many pieces"] * (IDLE_FRAMES // MAX_CONTINUATIONS)
    answered = await client.hears(GREETING + STREAM_1_HEAD + LAST + late)
    _is_told_to_calm_down(client, answered)
    client = PlayedClient()
    await client.request()
    late = LATE["heads of many fields"] * (IDLE_FRAMES // 100)
    answered = await client.hears(GREETING + STREAM_1_HEAD + LAST + late)
    _is_told_to_calm_down(client, answered)


async def test_what_is_under_way_for_streams_that_this_side_ends_uses_up_nothing(client: PlayedClient) -> None:
    await client.hears(GREETING)
    block = NO_TABLE + write_block([*ANSWER_HEAD, ("grpc-status", "1"), ("grpc-message", "The call was cancelled.")])
    for number in range(1, 4 * IDLE_FRAMES, 2):
        await client.request()
        client.connection.cancel(number)
        await client.hears(frames.frame(FrameKind.HEADERS, frames.END_HEADERS | frames.END_STREAM, number, block))
    assert client.connection.usable


async def test_a_stream_that_ends_again_and_again_ends_the_connection(client: PlayedClient) -> None:
    heard = await client.request()
    end = frames.frame(FrameKind.DATA, frames.END_STREAM, 1)
    answered = await client.hears(GREETING + STREAM_1_HEAD + end * 2 * IDLE_FRAMES)
    _is_told_to_calm_down(client, answered)
    assert heard.ends == [None]


def _is_told_to_calm_down(client: PlayedClient, answered: bytes) -> None:
    assert client.transport.closed
    assert client.lost == [client.connection]
    assert answered.endswith(frames.goaway(ErrorCode.ENHANCE_YOUR_CALM))


async def test_a_header_block_in_endless_pieces_ends_the_connection(client: PlayedClient) -> None:
    heard = await client.request()
    piece = frames.frame(FrameKind.CONTINUATION, 0, 1)
    begin = frames.frame(FrameKind.HEADERS, 0, 1)
    answered = await client.hears(GREETING + begin + piece * (MAX_CONTINUATIONS + 1))
    _is_told_to_calm_down(client, answered)
    assert "too many pieces" in str(heard.error)


async def test_each_header_block_has_its_own_pieces(client: PlayedClient) -> None:
    heard = await client.request()
    for flags, fields in ((0, ANSWER_HEAD), (frames.END_STREAM, TRAILERS)):
        begin = frames.frame(FrameKind.HEADERS, flags, 1, NO_TABLE + write_block(fields))
        pieces = frames.frame(FrameKind.CONTINUATION, 0, 1) * (MAX_CONTINUATIONS - 1)
        last = frames.frame(FrameKind.CONTINUATION, frames.END_HEADERS, 1)
        await client.hears((b"" if heard.heads else GREETING) + begin + pieces + last)
    assert (heard.heads, heard.ends) == ([dict(ANSWER_HEAD), dict(TRAILERS)], [None])


def _first_windows(*sizes: int) -> bytes:
    entries = (struct.pack(">HL", Setting.INITIAL_WINDOW_SIZE, size) for size in sizes)
    return frames.frame(FrameKind.SETTINGS, 0, 0, b"".join(entries))


async def test_a_frame_of_too_many_settings_ends_the_connection(client: PlayedClient) -> None:
    setting = struct.pack(">HL", Setting.INITIAL_WINDOW_SIZE, 65_535)
    await client.hears(frames.frame(FrameKind.SETTINGS, 0, 0, setting * MAX_SETTINGS))
    assert client.connection.usable
    answered = await client.hears(frames.frame(FrameKind.SETTINGS, 0, 0, setting * (MAX_SETTINGS + 1)))
    _is_told_to_calm_down(client, answered)


async def test_a_server_that_asks_without_reading_is_left() -> None:
    outbox = Outbox(asyncio.get_running_loop())
    outbox.connect(KeptWrites())
    outbox.pause()
    for _ in range(MAX_HELD_ANSWERS):
        outbox.answer(PING)
    with pytest.raises(ProtocolViolation, match="without reading") as caught:
        outbox.answer(PING)
    assert caught.value.code == ErrorCode.ENHANCE_YOUR_CALM


async def test_a_server_that_sends_without_reading_is_left(client: PlayedClient) -> None:
    heard = await client.request()
    await client.hears(GREETING + STREAM_1_HEAD)
    client.connection.pause_writing()
    for _ in range(MAX_HELD_ANSWERS):
        client.connection.give_back(1, 1)
    assert client.connection.usable
    client.connection.give_back(1, 1)
    _is_told_to_calm_down(client, client.transport.take())
    assert "without reading" in str(heard.error)


async def test_padded_data_is_not_answered_frame_by_frame(client: PlayedClient) -> None:
    await client.request()
    await client.hears(GREETING + STREAM_1_HEAD)
    padded = frames.frame(FrameKind.DATA, frames.PADDED, 1, b"\x40x" + b"\0" * 64)
    count = STREAM_WINDOW_BYTES // 4 // 65
    answered = await client.hears(padded * count)
    assert answered == b""
    answered = await client.hears(padded)
    assert answered == frames.window_update(1, (count + 1) * 65)


async def test_window_that_is_granted_byte_by_byte_is_used_once_a_turn(client: PlayedClient) -> None:
    await client.hears(frames.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
    await client.request(b"x" * 300)
    client.transport.take()
    answered = await client.hears(frames.frame(FrameKind.WINDOW_UPDATE, 0, 1, struct.pack(">L", 1)) * 200)
    assert answered == frames.frame(FrameKind.DATA, 0, 1, b"x" * 200)


async def test_of_first_windows_that_change_on_and_on_the_last_one_of_a_turn_is_used(client: PlayedClient) -> None:
    await client.hears(_first_windows(0))
    for _ in range(3):
        await client.request(b"x" * 300)
    client.transport.take()
    answered = await client.hears(_first_windows(*[300, 0] * 10, 20))
    sent = [frames.frame(FrameKind.DATA, 0, stream, b"x" * 20) for stream in (1, 3, 5)]
    assert answered == frames.frame(FrameKind.SETTINGS, frames.ACK, 0) + b"".join(sent)
    taken_back = _first_windows(300, 0) + frames.window_update(3, 20) + frames.window_update(5, 30)
    answered = await client.hears(taken_back)
    assert answered == frames.frame(FrameKind.SETTINGS, frames.ACK, 0) + frames.frame(FrameKind.DATA, 0, 5, b"x" * 10)


async def test_the_entries_of_settings_count_like_frames(client: PlayedClient) -> None:
    client.connection.data_received(_first_windows(*range(MAX_SETTINGS)) * (FRAMES_A_TURN // MAX_SETTINGS - 1))
    assert client.transport.reads.is_set()
    client.connection.data_received(_first_windows(*range(MAX_SETTINGS)) * 2)
    assert not client.transport.reads.is_set()


def test_frames_without_content_are_allowed_again_as_time_goes() -> None:
    now = 0.0
    idle = IdleFrames(lambda: now)
    for _ in range(3):
        for _ in range(IDLE_FRAMES):
            idle.add()
        with pytest.raises(ProtocolViolation):
            idle.add()
        now += 10 * IDLE_FRAMES / IDLE_FRAMES_A_SECOND
    for _ in range(10 * IDLE_FRAMES):
        idle.add()
        now += 1 / (IDLE_FRAMES_A_SECOND - 1)


async def test_streams_that_are_answered_use_up_nothing(client: PlayedClient) -> None:
    heard = await client.request()
    data = frames.frame(FrameKind.DATA, 0, 1, b"x") * 10 * IDLE_FRAMES
    await client.hears(GREETING + STREAM_1_HEAD + data + LAST)
    assert (len(heard.body), heard.ends) == (10 * IDLE_FRAMES, [None])
    for number in range(3, 4 * IDLE_FRAMES, 2):
        heard = await client.request()
        head = frames.frame(FrameKind.HEADERS, frames.END_HEADERS, number, write_block(ANSWER_HEAD))
        end = frames.frame(FrameKind.DATA, frames.END_STREAM, number)
        await client.hears(head + end)
        assert heard.ends == [None]


async def test_what_one_connection_brings_leaves_others_their_turn(client: PlayedClient) -> None:
    flooded = await client.request()
    other = PlayedClient()
    served = await other.request()
    client.connection.data_received(GREETING + STREAM_1_HEAD)
    other.connection.data_received(GREETING + STREAM_1_HEAD)
    client.connection.data_received(frames.frame(FrameKind.DATA, 0, 1, b"x") * 20 * FRAMES_A_TURN + LAST)
    for turn in range(1, 20):
        assert not client.transport.reads.is_set()
        assert len(flooded.body) <= turn * FRAMES_A_TURN
        other.connection.data_received(frames.frame(FrameKind.DATA, 0, 1, b"y"))
        assert len(served.body) == turn
        await asyncio.sleep(0)
    await client.hears(b"")
    assert (len(flooded.body), flooded.ends) == (20 * FRAMES_A_TURN, [None])


async def test_a_turns_work_is_bounded_in_however_many_pieces_it_comes(client: PlayedClient) -> None:
    heard = await client.request()
    pieces = [GREETING + STREAM_1_HEAD, *[frames.frame(FrameKind.DATA, 0, 1, b"x") * 16] * 64]
    for turns in range(1, 6):
        while pieces and client.transport.reads.is_set():  # as a loop that reads a socket on and on
            client.connection.data_received(pieces.pop(0))
        assert len(heard.body) <= turns * FRAMES_A_TURN
        await asyncio.sleep(0)
    assert len(heard.body) == 64 * 16


async def test_the_fields_of_header_blocks_are_work_of_a_turn(client: PlayedClient) -> None:
    fields = 100
    head = NO_TABLE + MANY_FIELDS
    calls = [await client.request() for _ in range(20)]
    heads = [frames.frame(FrameKind.HEADERS, frames.END_HEADERS, heard.stream or 0, head) for heard in calls]
    client.connection.data_received(GREETING + b"".join(heads))
    for turn in range(1, 10):
        assert sum(len(heard.heads) for heard in calls) <= 1 + turn * FRAMES_A_TURN // fields
        await asyncio.sleep(0)
    await client.hears(b"")
    assert all(len(heard.heads[0]) == fields for heard in calls)


async def test_informational_heads_count_for_their_fields(client: PlayedClient) -> None:
    heard = await client.request()
    informational = frames.frame(
        FrameKind.HEADERS, frames.END_HEADERS, 1, write_block([(":status", "103")]) + MANY_FIELDS
    )
    answered = await client.hears(GREETING + STREAM_1_HEAD + informational * (IDLE_FRAMES // 100 + 1))
    _is_told_to_calm_down(client, answered)
    assert len(heard.heads) <= 1 + IDLE_FRAMES // 100


async def test_a_connection_that_is_closed_between_two_turns_hears_nothing_more(client: PlayedClient) -> None:
    heard = await client.request()
    client.connection.data_received(GREETING + STREAM_1_HEAD + frames.frame(FrameKind.DATA, 0, 1, b"x") * 1000)
    client.connection.close()
    before = len(heard.body)
    await asyncio.sleep(0)
    assert len(heard.body) == before
    assert len(heard.ends) == 1
