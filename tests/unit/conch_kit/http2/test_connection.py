"""The connection against `h2`, another implementation of the protocol."""

import asyncio
import struct

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest

from conch_kit.http2 import frames
from conch_kit.http2.connection import STREAM_WINDOW_BYTES
from conch_kit.http2.frames import ErrorCode, FrameKind, Setting
from conch_kit.http2.header_blocks import write_block
from testkit.http.http2_client import ANSWER_HEAD, GREETING, HEAD, NO_TABLE, STREAM_1_HEAD, TRAILERS, PlayedClient


class Server:
    """`h2` at the other end."""

    def __init__(self, client: PlayedClient, **own: int) -> None:
        self._client = client
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        changed = {h2.settings.SettingCodes[name.upper()]: value for name, value in own.items()}
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values=changed)
        self.h2.max_inbound_frame_size = self.h2.local_settings.max_frame_size
        self.h2.initiate_connection()
        self.bodies: dict[int, bytes] = {}
        self.whole: list[int] = []
        self.reset: list[int] = []

    async def turn(self, *, reads: bool = True) -> None:
        """Exchange bytes until neither has more to say; without `reads` the server gives no window back."""
        while True:
            await asyncio.sleep(0)
            came = self._client.transport.take()
            for event in self.h2.receive_data(came) if came else ():
                self._see(event, reads=reads)
            said = self.h2.data_to_send()
            if said:
                self._client.connection.data_received(said)
            if not said and not came:
                return

    def _see(self, event: h2.events.Event, *, reads: bool) -> None:
        match event:
            case h2.events.DataReceived():
                self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + (event.data or b"")
                if reads:
                    self.h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
            case h2.events.StreamEnded():
                self.whole.append(event.stream_id)
            case h2.events.StreamReset():
                self.reset.append(event.stream_id)

    def answer(self, stream: int, *pieces: bytes, padding: int | None = None) -> None:
        """Answer whole."""
        self.h2.send_headers(stream, ANSWER_HEAD)
        for piece in pieces:
            self.h2.send_data(stream, piece, pad_length=padding)
        self.h2.send_headers(stream, TRAILERS, end_stream=True)


@pytest.fixture
async def client() -> PlayedClient:
    return PlayedClient()


async def test_a_request_and_its_answer(client: PlayedClient) -> None:
    server = Server(client)
    heard = await client.request(b"question")
    await server.turn()
    assert server.bodies == {1: b"question"}
    assert server.whole == [1]
    server.answer(1, b"one", b"two", padding=7)
    await server.turn()
    assert heard.heads == [dict(ANSWER_HEAD), dict(TRAILERS)]
    assert (heard.body, heard.ends) == (b"onetwo", [None])
    assert not client.connection.busy
    assert client.connection.usable


async def test_streams_side_by_side(client: PlayedClient) -> None:
    server = Server(client)
    calls = [await client.request(b"%d" % number) for number in range(50)]
    await server.turn()
    for stream in reversed(server.whole):
        server.answer(stream, server.bodies[stream] * 2)
    await server.turn()
    assert [heard.body for heard in calls] == [b"%d" % number * 2 for number in range(50)]


@pytest.mark.parametrize("own", [{}, {"initial_window_size": 1000}, {"max_frame_size": 100_000}])
async def test_a_large_body_goes_as_the_windows_allow(client: PlayedClient, own: dict[str, int]) -> None:
    server = Server(client, **own)
    await server.turn()
    body = bytes(range(256)) * 1500
    await client.request(body)
    await server.turn()
    assert server.bodies == {1: body}
    assert server.whole == [1]


async def test_a_body_waits_for_a_window_and_other_streams_go_on(client: PlayedClient) -> None:
    server = Server(client, initial_window_size=1000)
    await server.turn()
    await client.request(b"x" * 5000)
    await server.turn(reads=False)
    assert (len(server.bodies[1]), server.whole) == (1000, [])
    other = await client.request(b"short")
    await server.turn(reads=False)
    server.answer(3)
    await server.turn()
    assert other.ends == [None]
    server.h2.increment_flow_control_window(10_000, 1)
    await server.turn()
    assert (len(server.bodies[1]), server.whole) == (5000, [3, 1])


async def test_a_window_that_shrinks_below_nothing_holds_a_body_back(client: PlayedClient) -> None:
    server = Server(client, initial_window_size=1000)
    await server.turn()
    await client.request(b"x" * 5000)
    await server.turn(reads=False)
    server.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 400})
    await server.turn(reads=False)
    server.h2.increment_flow_control_window(600, 1)
    await server.turn(reads=False)
    assert len(server.bodies[1]) == 1000
    server.h2.increment_flow_control_window(100, 1)
    await server.turn(reads=False)
    assert len(server.bodies[1]) == 1100


async def test_a_full_socket_holds_requests_back(client: PlayedClient) -> None:
    client.transport.take()
    client.connection.pause_writing()
    calls = [await client.request(b"first"), await client.request(b"second"), await client.request(b"third")]
    client.connection.withdraw(calls[1])
    assert client.transport.take() == b""
    client.connection.resume_writing()
    await asyncio.sleep(0)
    sent = client.transport.take()
    assert (sent.count(HEAD), sent.endswith(b"third"), b"second" in sent) == (2, True, False)
    assert [heard.stream for heard in calls] == [1, None, 3]


async def test_a_full_socket_holds_the_rest_of_a_body_back(client: PlayedClient) -> None:
    server = Server(client, initial_window_size=10)
    await server.turn()
    await client.request(b"x" * 30)
    await server.turn(reads=False)
    client.connection.pause_writing()
    server.h2.increment_flow_control_window(100, 1)
    await server.turn(reads=False)
    assert len(server.bodies[1]) == 10
    client.connection.resume_writing()
    await server.turn(reads=False)
    assert len(server.bodies[1]) == 30


async def test_padding_is_given_back(client: PlayedClient) -> None:
    server = Server(client)
    await client.request()
    await server.turn()
    server.h2.send_headers(1, ANSWER_HEAD)
    for _ in range(3 * STREAM_WINDOW_BYTES // 16_000):
        for _ in range(62):
            server.h2.send_data(1, b"x", pad_length=255)
        client.connection.give_back(1, 62)
        await server.turn()
    assert server.h2.local_flow_control_window(1) > 0


async def test_a_stream_that_nobody_reads_is_stopped_by_its_window_and_no_other(client: PlayedClient) -> None:
    server = Server(client)
    unread, read = await client.request(), await client.request()
    await server.turn()
    server.h2.send_headers(1, ANSWER_HEAD)
    server.h2.send_headers(3, ANSWER_HEAD)
    for _ in range(STREAM_WINDOW_BYTES // 16_384):
        server.h2.send_data(1, b"x" * 16_384)
        await server.turn()
    assert server.h2.local_flow_control_window(1) == 0
    server.h2.send_data(3, b"y" * 16_000)
    await server.turn()
    assert (len(unread.body), len(read.body)) == (STREAM_WINDOW_BYTES, 16_000)
    client.connection.give_back(1, 5000)
    await server.turn()
    assert server.h2.local_flow_control_window(1) == 5000


async def test_the_connections_window_comes_back_by_itself(client: PlayedClient) -> None:
    server = Server(client)
    await client.request()
    await server.turn()
    server.h2.send_headers(1, ANSWER_HEAD)
    for _ in range(70 * 64):  # 70 MiB, more than the connection's window
        server.h2.send_data(1, b"x" * 16_384)
        client.connection.give_back(1, 16_384)
        await server.turn()
    assert server.h2.local_flow_control_window(1) > 0


async def test_more_streams_than_the_server_takes_wait_their_turn(client: PlayedClient) -> None:
    server = Server(client, max_concurrent_streams=2)
    await server.turn()
    calls = [await client.request(b"%d" % number) for number in range(4)]
    await server.turn()
    assert server.whole == [1, 3]
    client.connection.withdraw(calls[2])
    server.answer(1)
    await server.turn()
    assert server.whole == [1, 3, 5]
    assert server.bodies[5] == b"3"
    assert (calls[0].ends, calls[2].ends, calls[2].stream) == ([None], [], None)


async def test_a_cancelled_stream_is_reset_and_the_next_one_sent(client: PlayedClient) -> None:
    server = Server(client, max_concurrent_streams=1)
    await server.turn()
    first, second = await client.request(), await client.request()
    await server.turn()
    client.connection.cancel(1)
    await server.turn()
    assert server.reset == [1]
    assert server.whole == [1, 3]
    assert (first.ends, second.ends) == ([], [])


async def test_what_comes_for_a_cancelled_stream_is_dropped(client: PlayedClient) -> None:
    heard = await client.request()
    client.connection.cancel(1)
    last = frames.frame(FrameKind.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, write_block(TRAILERS))
    data = frames.frame(FrameKind.DATA, 0, 1, b"late")
    await client.hears(GREETING + STREAM_1_HEAD + data + last)
    assert (heard.heads, heard.ends, client.connection.usable) == ([], [], True)


@pytest.mark.parametrize("code", [ErrorCode.REFUSED_STREAM, ErrorCode.CANCEL, 999])
async def test_a_stream_that_the_server_resets_has_its_code(client: PlayedClient, code: int) -> None:
    heard = await client.request()
    await client.hears(GREETING + frames.frame(FrameKind.RST_STREAM, 0, 1, struct.pack(">L", code)))
    assert heard.error.code == code
    assert client.connection.usable


async def test_an_answer_before_the_whole_request_ends_the_request(client: PlayedClient) -> None:
    server = Server(client, initial_window_size=10)
    await server.turn()
    heard = await client.request(b"x" * 100)
    await server.turn(reads=False)
    server.answer(1)
    await server.turn()
    assert heard.ends == [None]
    assert server.reset == [1]


async def test_a_server_that_goes_finishes_what_it_has_begun(client: PlayedClient) -> None:
    server = Server(client)
    first, second = await client.request(), await client.request()
    await server.turn()
    goaway = frames.frame(FrameKind.GOAWAY, 0, 0, struct.pack(">LL", 1, 0) + b"bye")
    await client.hears(goaway)
    assert not client.connection.usable
    assert second.error.code == ErrorCode.REFUSED_STREAM
    assert "bye" in str(second.error)
    late = await client.request()
    assert late.error.code == ErrorCode.REFUSED_STREAM
    server.answer(1, b"done")
    await server.turn()
    assert (first.body, first.ends) == (b"done", [None])
    assert client.transport.closed
    assert client.lost == [client.connection]


async def test_a_server_that_goes_has_not_begun_what_waits_for_its_turn(client: PlayedClient) -> None:
    server = Server(client, max_concurrent_streams=1)
    await server.turn()
    begun, waiting = await client.request(), await client.request()
    await client.hears(frames.frame(FrameKind.GOAWAY, 0, 0, struct.pack(">LL", 1, 0)))
    assert waiting.error.code == ErrorCode.REFUSED_STREAM
    assert begun.ends == []


async def test_pings_are_answered(client: PlayedClient) -> None:
    answered = await client.hears(GREETING + frames.frame(FrameKind.PING, 0, 0, b"12345678"))
    assert answered.endswith(frames.frame(FrameKind.PING, frames.ACK, 0, b"12345678"))
    assert await client.hears(frames.frame(FrameKind.PING, frames.ACK, 0, b"12345678")) == b""


async def test_a_lost_connection_breaks_what_is_open_and_what_waits(client: PlayedClient) -> None:
    await client.hears(frames.settings({Setting.MAX_CONCURRENT_STREAMS: 1}))
    calls = [await client.request(), await client.request()]
    client.connection.connection_lost(OSError("reset by peer"))
    assert [(heard.error.code, "reset by peer" in str(heard.error)) for heard in calls] == [(None, True)] * 2
    assert client.lost == [client.connection]
    assert not client.connection.busy


@pytest.mark.parametrize("cancelled", [False, True])
async def test_what_nobody_waits_for_any_more_is_not_kept_to_be_sent(client: PlayedClient, *, cancelled: bool) -> None:
    body = bytearray(10 * STREAM_WINDOW_BYTES)
    await client.request(body)
    with pytest.raises(BufferError):
        body.clear()  # a view of it waits for a window
    if cancelled:
        client.connection.cancel(1)
    else:
        client.connection.connection_lost(None)
    body.clear()


async def test_a_header_block_may_come_in_pieces(client: PlayedClient) -> None:
    heard = await client.request()
    block = NO_TABLE + write_block(ANSWER_HEAD)
    pieces = frames.frame(
        FrameKind.HEADERS, frames.PRIORITY | frames.PADDED, 1, b"\x02" + b"\0" * 5 + block[:4] + b"\0\0"
    )
    pieces += frames.frame(FrameKind.CONTINUATION, 0, 1, block[4:9])
    pieces += frames.frame(FrameKind.CONTINUATION, frames.END_HEADERS, 1, block[9:])
    await client.hears(GREETING)
    for byte in pieces:
        await client.hears(bytes((byte,)))
    assert heard.heads == [dict(ANSWER_HEAD)]
