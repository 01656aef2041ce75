"""The connection against servers that break the protocol, on purpose and at random."""

import asyncio
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch_kit.http2 import frames
from conch_kit.http2.frames import ErrorCode, FrameKind, Setting
from conch_kit.http2.header_blocks import write_block
from testkit.http.http2_client import GREETING, STREAM_1_HEAD, TRAILERS, PlayedClient


@pytest.fixture
async def client() -> PlayedClient:
    return PlayedClient()


def _number(kind: FrameKind, stream: int, value: int, flags: int = 0) -> bytes:
    return frames.frame(kind, flags, stream, struct.pack(">L", value))


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        frames.frame(FrameKind.SETTINGS, frames.ACK, 0),
        GREETING + frames.frame(FrameKind.SETTINGS, 0, 1),
        GREETING + frames.frame(FrameKind.SETTINGS, 0, 0, b"12345"),
        GREETING + frames.frame(FrameKind.SETTINGS, frames.ACK, 0, b"123456"),
        frames.settings({Setting.MAX_FRAME_SIZE: 16_383}),
        frames.settings({Setting.MAX_FRAME_SIZE: 2**24}),
        frames.settings({Setting.INITIAL_WINDOW_SIZE: 2**31}),
        frames.settings({Setting.ENABLE_PUSH: 1}),
        GREETING + frames.frame(FrameKind.DATA, 0, 0, b"x"),
        GREETING + frames.frame(FrameKind.DATA, 0, 3, b"x"),
        GREETING + frames.frame(FrameKind.DATA, 0, 2, b"x"),
        GREETING + STREAM_1_HEAD + frames.frame(FrameKind.DATA, frames.PADDED, 1, b"\x05abc"),
        GREETING + STREAM_1_HEAD + frames.frame(FrameKind.DATA, frames.PADDED, 1, b""),
        GREETING + STREAM_1_HEAD + frames.frame(FrameKind.DATA, 0, 1, b"x" * 16_384) * 65,
        GREETING + b"\x00\x40\x01\x00\x00\x00\x00\x00\x01",
        GREETING + frames.frame(FrameKind.HEADERS, frames.END_HEADERS, 0, b""),
        GREETING + frames.frame(FrameKind.HEADERS, frames.END_HEADERS, 3, b""),
        GREETING + frames.frame(FrameKind.HEADERS, frames.END_HEADERS, 1, b"\xff\xff\xff\xff"),
        GREETING + frames.frame(FrameKind.HEADERS, frames.END_HEADERS, 1, b"\x3f\xe1\x1f"),  # a table of 4,096 bytes
        GREETING + frames.frame(FrameKind.HEADERS, 0, 1, b"") + frames.frame(FrameKind.PING, 0, 0, b"12345678"),
        GREETING + frames.frame(FrameKind.HEADERS, 0, 1, b"") + frames.frame(FrameKind.DATA, 0, 1, b"x"),
        GREETING + frames.frame(FrameKind.HEADERS, 0, 1, b"") + frames.frame(FrameKind.CONTINUATION, 0, 3, b""),
        GREETING
        + frames.frame(FrameKind.HEADERS, 0, 1, b"")
        + frames.frame(FrameKind.CONTINUATION, 0, 1, b"x" * 16_384) * 5,
        GREETING + frames.frame(FrameKind.CONTINUATION, frames.END_HEADERS, 1, b""),
        GREETING + frames.frame(FrameKind.PUSH_PROMISE, frames.END_HEADERS, 1, b"\0\0\0\x02"),
        GREETING + frames.frame(FrameKind.PING, 0, 0, b"1234567"),
        GREETING + frames.frame(FrameKind.GOAWAY, 0, 0, b"1234567"),
        GREETING + frames.frame(FrameKind.RST_STREAM, 0, 1, b"123"),
        GREETING + _number(FrameKind.RST_STREAM, 3, 0),
        GREETING + frames.frame(FrameKind.WINDOW_UPDATE, 0, 0, b"123"),
        GREETING + _number(FrameKind.WINDOW_UPDATE, 0, 0),
        GREETING + _number(FrameKind.WINDOW_UPDATE, 0, 2**31 - 1),
        GREETING + _number(FrameKind.WINDOW_UPDATE, 3, 1),
    ],
)
async def test_a_server_that_breaks_the_protocol_is_left_and_its_streams_break(
    client: PlayedClient, said: bytes
) -> None:
    heard = await client.request()
    answered = await client.hears(said)
    assert client.transport.closed
    assert heard.error.code is None
    assert "broke the protocol" in str(heard.error)
    assert frames.HEAD.unpack_from(answered, len(answered) - 17)[2] == FrameKind.GOAWAY
    assert frames.uint32(answered, len(answered) - 4) != ErrorCode.NO_ERROR
    assert client.lost == [client.connection]


async def test_unknown_frames_and_settings_are_skipped(client: PlayedClient) -> None:
    heard = await client.request()
    await client.hears(b"\0\0\x06\x04\0\0\0\0\0" + struct.pack(">HL", 99, 1) + b"\0\0\x01\x63\xff\0\0\0\x01x")
    assert (client.connection.usable, heard.ends) == (True, [])


_FRAMES = st.builds(
    lambda kind, flags, stream, payload: (
        frames.HEAD.pack(len(payload) >> 8, len(payload) & 255, kind, flags, stream) + payload
    ),
    st.integers(0, 10),
    st.sampled_from([0, 1, 4, 5, 8, 0x20, 0xFF]),
    st.sampled_from([0, 1, 2, 3, 5, 2**31]),
    st.one_of(st.binary(max_size=40), st.sampled_from([struct.pack(">L", 1), b"12345678", write_block(TRAILERS)])),
)


@given(said=st.lists(st.one_of(_FRAMES, st.binary(max_size=30)), max_size=30), cut=st.integers(1, 50))
def test_whatever_a_server_says_every_stream_ends_once(said: list[bytes], cut: int) -> None:
    async def play() -> None:
        client = PlayedClient()
        calls = [await client.request(b"x" * 70_000) for _ in range(3)]
        data = GREETING + b"".join(said)
        for piece in _pieces(data, cut):
            await client.hears(piece) if not client.transport.closed else None
        client.connection.connection_lost(None)
        assert [len(heard.ends) for heard in calls] == [1, 1, 1]
        assert not client.connection.busy
        assert len(client.lost) == 1

    asyncio.run(play())


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]
