"""What is left of a request once it is over: nothing that waits for a garbage collection."""

import asyncio
import gc
import logging
import socket

import pytest
import uvloop

from conch_kit.errors import RequestTimeout
from conch_kit.http_server.connection import HttpConnection
from conch_kit.http_server.limits import ConnectionLimits
from conch_kit.http_server.request import Request
from conch_kit.http_server.server import HttpServer
from testkit.waiting import eventually

HALF = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n" + b"x" * 50_000
CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"


async def app(scope, receive, send):
    status, more = 200, scope["path"] != "/early"
    try:
        while more:
            message = await receive()
            more = message.get("more_body", False)
    except RequestTimeout as late:
        status = late.status
    if scope["path"] == "/broken":
        raise ValueError("broken")
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def requests_and_connections():
    return [each for each in gc.get_objects() if isinstance(each, Request | HttpConnection)]


@pytest.fixture
def no_collection(caplog):
    caplog.set_level(logging.CRITICAL)  # a record of an error that is kept keeps what the error came through
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(HALF + b"x" * 50_000, 200, id="answered"),
        pytest.param(HALF, 408, id="a body that stands still"),
        pytest.param(HALF.replace(b"/", b"/early", 1), 200, id="answered early"),
        pytest.param(HALF.replace(b"/", b"/broken", 1) + b"x" * 50_000, 500, id="failed"),
        pytest.param(CHUNKED + b"nonsense\r\n", 400, id="no HTTP"),
        pytest.param(CHUNKED + b"0\r\n" + b"x: y\r\n" * 200, 431, id="trailers"),
        pytest.param(HALF, None, id="gone before the end of the body"),
    ],
)
@pytest.mark.usefixtures("no_collection")
def test_nothing_of_a_request_that_is_over_waits_for_a_garbage_collection(sent, status):
    before = requests_and_connections()  # of other tests
    known = {id(each) for each in before}

    def left():
        return [each for each in requests_and_connections() if id(each) not in known]

    async def play():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(0)
            async with HttpServer(app, ConnectionLimits(body_s=0.5)).serving(listener):
                with socket.create_connection(listener.getsockname(), 10) as client:
                    client.sendall(sent)
                    if status is None:
                        await eventually(left, "the connection")
                    else:
                        assert (await asyncio.to_thread(client.recv, 1000)).startswith(b"HTTP/1.1 %d " % status)
                await eventually(lambda: not left(), "the end of the request and its connection", 5)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())
