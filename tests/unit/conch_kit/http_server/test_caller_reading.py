"""Callers on real sockets, read by uvloop as in every process."""

import asyncio
import socket

import pytest
import uvloop

from conch_kit.http.caller_connection import connection
from conch_kit.http_server.connection import HttpConnection
from conch_kit.http_server.server import HttpServer
from testkit.http.http_caller import CallerTransport

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
BODY_BEGUN = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 100_000
RESET = b"\1\0\0\0\0\0\0\0"
"""The option to linger for no time: a socket that is closed with it resets its connection."""


def ends(how, client):
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    if how == "half":
        client.shutdown(socket.SHUT_WR)
    else:
        client.close()


@pytest.mark.parametrize("how", ["closed", "reset", "half"])
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(GET, id="alone"),
        pytest.param(GET + GET, id="another behind it"),
        pytest.param(GET + BODY_BEGUN, id="another with half its body"),
        pytest.param(GET * 1000, id="many behind it"),
        pytest.param(BODY_BEGUN, id="a body that waits"),
    ],
)
def test_a_caller_that_hangs_up_is_noticed_though_it_is_not_read(sent, how):
    async def play():
        begun, gone = asyncio.Event(), asyncio.Event()

        async def app(scope, receive, send):
            connection(scope).on_gone = gone.set
            begun.set()
            await gone.wait()

        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
            listener.settimeout(0)
            async with HttpServer(app).serving(listener):
                await asyncio.to_thread(client.connect, listener.getsockname())
                await asyncio.to_thread(client.sendall, sent)
                await asyncio.wait_for(begun.wait(), 30)
                await asyncio.sleep(0.3)  # so that the server has looked already when the caller goes
                assert not gone.is_set()
                ends(how, client)
                await asyncio.wait_for(gone.wait(), 10)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())


async def test_of_many_callers_whose_rest_nobody_reads_some_are_read_in_each_turn(caller):
    many = [(HttpConnection(caller.server), CallerTransport()) for _ in range(100)]
    for one, transport in many:
        one.connection_made(transport)
        one.data_received(b"nonsense\r\n\r\n")
        one.data_received(bytes(256 * 1024))
    assert 0 < sum(transport.reading for _, transport in many) < 20
    read = set()
    for _ in range(100):
        for _, transport in many:
            if transport.reading:
                transport.pause_reading()
                read.add(transport)
        await asyncio.sleep(0)
        assert sum(transport.reading for _, transport in many) < 30
    assert len(read) == 100
    for one, _ in many:
        one.connection_lost(None)
