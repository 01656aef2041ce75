"""Calls of an engine that says anything: each one's reader hears its end once, as one of the errors that are told."""

import asyncio
import struct

import grpc
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc.service_pb2 import ModelStreamInferResponse

from conch_kit.http2 import frames
from conch_kit.http2.frames import FrameKind
from conch_kit.http2.header_blocks import write_block
from conch_kit.triton.message_parsing import MessageTooLarge
from conch_kit.triton.stream_call import CallFailed, StreamCall
from testkit.http.http2_client import ANSWER_HEAD, GREETING, HEAD, NO_TABLE, PlayedClient

_MESSAGE = ModelStreamInferResponse(error_message="x").SerializeToString()
_STREAMS = st.sampled_from([1, 1, 1, 3])
_TEXTS = st.one_of(st.sampled_from(["0", "3", "99", "-1", "\u00b2", "9" * 5000, "%zz", "%ff", ""]), st.text(max_size=8))
_HEADERS = st.builds(
    lambda head, trailers: [*head, *trailers],
    st.sampled_from([ANSWER_HEAD, [], [(":status", "103")], [(":status", "503")], [(":status", "")]]),
    st.lists(st.tuples(st.sampled_from(["grpc-status", "grpc-message", "content-type"]), _TEXTS), max_size=2),
)
_HEADS = st.builds(
    lambda stream, flags, fields: frames.frame(
        FrameKind.HEADERS, frames.END_HEADERS | flags, stream, NO_TABLE + write_block(_plain(fields))
    ),
    _STREAMS,
    st.sampled_from([0, frames.END_STREAM]),
    _HEADERS,
)
_PIECES = st.one_of(
    st.just(struct.pack(">BL", 0, len(_MESSAGE)) + _MESSAGE),
    st.builds(struct.pack, st.just(">BL"), st.integers(0, 2), st.integers(0, 2**32 - 1)),
    st.binary(max_size=12),
)
_DATA = st.builds(
    lambda stream, flags, pieces: frames.frame(FrameKind.DATA, flags, stream, b"".join(pieces)),
    _STREAMS,
    st.sampled_from([0, frames.END_STREAM]),
    st.lists(_PIECES, max_size=4),
)


def _plain(fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value.encode("utf-8", "replace").decode("latin-1")) for name, value in fields]


@given(said=st.lists(st.one_of(_HEADS, _DATA, _DATA), max_size=12), cut=st.integers(1, 60))
def test_whatever_an_engine_says_every_call_ends_as_one_of_the_errors_that_are_told(
    said: list[bytes], cut: int
) -> None:
    async def play() -> None:
        client = PlayedClient()
        calls = [StreamCall() for _ in range(2)]
        for call in calls:
            call.send(client.connection, HEAD, b"question")
        readers = [asyncio.create_task(_end(call)) for call in calls]
        data = GREETING + b"".join(said)
        for at in range(0, len(data), cut):
            if not client.transport.closed:
                await client.hears(data[at : at + cut])
        client.connection.connection_lost(None)
        async with asyncio.timeout(10):
            ends = await asyncio.gather(*readers)
        assert all(call.done() for call in calls)
        assert all(isinstance(end.code, grpc.StatusCode) and end.message for end in ends if isinstance(end, CallFailed))
        assert not client.connection.busy

    asyncio.run(play())


async def _end(call: StreamCall) -> CallFailed | MessageTooLarge | None:
    try:
        while await call.read() is not None:
            pass
    except (CallFailed, MessageTooLarge) as error:
        return error
    return None
