"""Which protocol says what is wrong: with a request that no handler sees, and with one about models."""

import asyncio
import socket

import orjson
import pytest

from conch_contracts.anthropic.answer import ErrorAnswer
from conch_gateway.answers.protocols import refused_head
from conch_kit.http.asgi import Receive, Scope, Send
from conch_kit.http_server.server import HttpServer
from testkit.gateway.fakes import Answered, gateway


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
        async with HttpServer(nobody, refusal_form=refused_head).serving(listener), asyncio.timeout(30):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(b"POST %b HTTP/1.1\r\nhost: x\r\nx-a: %b\r\n\r\n" % (target, b"b" * 100_000))
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
    assert head.startswith(b"HTTP/1.1 431 ")
    answer = orjson.loads(body)
    assert answer["error"]["type"] == "invalid_request_error"
    assert "at most 65536 bytes" in answer["error"]["message"]
    assert (answer.get("type") == "error") is of_messages
    ids = [value for name, value in map(_header, head.split(b"\r\n")[1:]) if name in (b"x-request-id", b"request-id")]
    assert ids == [ids[0]] * (2 if of_messages else 1)
    assert answer.get("request_id", ids[0].decode()) == ids[0].decode()


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/v1/models/nope", 404, "not_found_error"),
        ("GET", "/v1/models/", 404, "not_found_error"),
        ("DELETE", "/v1/models/tiny-chat", 405, "invalid_request_error"),
        ("POST", "/v1/models", 405, "invalid_request_error"),
        ("GET", "/v1/models/tiny-chat", 529, "overloaded_error"),
    ],
)
async def test_errors_about_models_have_the_form_of_the_api_whose_client_asks(
    method: str, path: str, status: int, kind: str
) -> None:
    running = gateway(reachable=lambda _: False)
    answer = await running.client.call(method, path, b"", [(b"anthropic-version", b"2023-06-01")])
    assert (answer.status, _anthropics(answer)) == (status, kind)
    plain = await running.client.call(method, path)
    assert (plain.status, plain.error["type"]) == (
        (503, "service_unavailable_error") if status == 529 else (status, "invalid_request_error")
    )


async def test_the_header_changes_no_path_that_is_openais_alone() -> None:
    answer = await gateway().client.post("/v1/chat/completions", {}, [(b"anthropic-version", b"2023-06-01")])
    assert answer.error["param"] == "messages"


def _anthropics(answer: Answered) -> str:
    """Return the type of an error, which must have Anthropic's form."""
    told = ErrorAnswer.model_validate_json(answer.body)
    assert told.request_id.encode() == answer.headers[b"request-id"] == answer.headers[b"x-request-id"]
    return told.error.type


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b": ")
    return name, value
