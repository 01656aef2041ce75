"""Which protocol says what is wrong with a request that no handler sees."""

import asyncio
import socket

import orjson
import pytest

from conch_gateway.answers.protocols import refused_head_body
from conch_kit.http.asgi import Receive, Scope, Send
from conch_kit.http_server.server import HttpServer


async def nobody(scope: Scope, receive: Receive, send: Send) -> None:
    """Be an application that no refused request comes to."""
    raise AssertionError(scope["path"])


@pytest.mark.parametrize(
    ("target", "of_messages"),
    [
        (b"/v1/messages", True),
        (b"/v1/messages?beta=true", True),
        (b"/v1/messages/count_tokens", True),
        (b"/v1/chat/completions", False),
        (b"/v1/messages2", False),
    ],
)
async def test_a_head_that_is_too_large_is_refused_in_the_form_of_its_path(target: bytes, of_messages: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with HttpServer(nobody, refusal_body=refused_head_body).serving(listener), asyncio.timeout(30):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(b"POST %b HTTP/1.1\r\nhost: x\r\nx-a: %b\r\n\r\n" % (target, b"b" * 100_000))
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
    assert head.startswith(b"HTTP/1.1 431 ")
    answer = orjson.loads(body)
    assert answer["error"]["type"] == "invalid_request_error"
    assert "at most 65536 bytes" in answer["error"]["message"]
    assert (answer.get("type") == "error") is of_messages
    assert not of_messages or f"x-request-id: {answer['request_id']}".encode() in head
