"""One connection to a worker, byte by byte: what is lost with it, and what is left for whom."""

import asyncio
from unittest.mock import Mock

import pytest

from conch_contracts.names import WorkerUrl
from conch_gateway.upstream.connection import UpstreamConnection
from conch_gateway.upstream.port import AnswerLost

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def asked() -> UpstreamConnection:
    connection = UpstreamConnection(asyncio.get_running_loop(), lambda _: None, WorkerUrl("http://w:1"))
    connection.connection_made(Mock(asyncio.Transport))
    connection.send(b"POST / HTTP/1.1\r\n\r\n")
    return connection


@pytest.mark.parametrize("broken", [None, ConnectionResetError()])
async def test_an_answer_without_length_is_whole_only_where_its_sender_has_closed_in_order(
    broken: Exception | None,
) -> None:
    connection = asked()
    connection.data_received(HEAD + b"part")
    connection.connection_lost(broken)
    assert await connection.read() == b"part"
    if broken is None:
        assert await connection.read() == b""
    else:
        with pytest.raises(AnswerLost):
            await connection.read()


async def test_what_comes_when_nobody_takes_pieces_any_more_is_left_to_be_read() -> None:
    taken: list[bytes] = []

    def sink(piece: bytes) -> bool:
        taken.append(piece)
        return True

    connection = asked()
    connection.data_received(CHUNKED)
    pushing = asyncio.create_task(connection.push(sink))
    await asyncio.sleep(0)
    connection.data_received(b"3\r\none\r\n")
    pushing.cancel()
    await asyncio.gather(pushing, return_exceptions=True)
    connection.data_received(b"3\r\ntwo\r\n")
    assert taken == [b"one"]
    assert await connection.read() == b"two"
