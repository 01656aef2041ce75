import asyncio

import pytest
from bench.clients.connection import Answer, Connection, EventTally

STREAM = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b'12\r\ndata: {"content": ""}\n\n\r\n'
    b'13\r\ndata: {"content": "A"}\n\n\r\n'
    b'1f\r\ndata: {"completion_tokens": 7}\n\n\r\n0\r\n\r\n'
)
COMPLETE = b'HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n{"a": 12}'


class Wire(asyncio.Transport):
    """Takes what is written and hangs up without a network."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        pass


def begin() -> tuple[Connection, Answer, EventTally]:
    tally = EventTally()
    connection = Connection(tally)
    connection.connection_made(Wire())
    return connection, connection.begin(b"POST"), tally


@pytest.mark.parametrize("size", [1, 2, 5, 17, 64, 4096])
async def test_a_stream_ends_at_its_last_chunk_however_it_is_cut(size: int) -> None:
    connection, answer, _ = begin()
    for start in range(0, len(STREAM), size):
        assert not answer.first_text_s or start > STREAM.find(b'"A')
        connection.data_received(STREAM[start : start + size])
    assert await connection.finished(1) is answer
    assert answer.status == 200
    assert answer.first_text_s > 0
    assert b'"completion_tokens": 7' in answer.tail


@pytest.mark.parametrize("size", [1, 7, 4096])
async def test_a_body_with_a_length_ends_at_its_length(size: int) -> None:
    connection, answer, _ = begin()
    for start in range(0, len(COMPLETE), size):
        connection.data_received(COMPLETE[start : start + size])
    assert (await connection.finished(1)).tail == b'{"a": 12}'
    assert answer.status == 404


async def test_events_are_counted_by_read() -> None:
    connection, _, tally = begin()
    connection.data_received(STREAM)
    await connection.first_event(1)
    assert (tally.events, tally.reads) == (3, 1)


async def test_a_connection_that_breaks_fails_its_request() -> None:
    connection, _, _ = begin()
    connection.connection_lost(None)
    with pytest.raises(ConnectionResetError):
        await connection.finished(1)
    with pytest.raises(ConnectionResetError):
        await connection.first_event(1)
