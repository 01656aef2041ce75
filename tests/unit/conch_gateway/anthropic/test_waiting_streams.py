"""Streams of Messages that wait before they begin: what their clients, the SDK among them, make of that."""

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import orjson
import pytest

from conch_contracts.anthropic.answer import ErrorAnswer
from conch_contracts.names import GENERATE_PATH
from testkit.gateway.fakes import Answered, FakeAnswer, Script, gateway, refused, streamed
from testkit.waiting import eventually

PATH = "/v1/messages"
SAID: list[Any] = [{"role": "user", "content": "hi"}]
STREAM = {"model": "tiny-chat", "max_tokens": 7, "messages": SAID, "stream": True}
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
USAGE = b': usage {"prompt_tokens":3,"completion_tokens":2}\n\n'


def read_by_sdk(body: bytes) -> Any:
    """Return the message that the SDK makes of a streamed answer; raises its errors."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    http = anthropic.DefaultHttpxClient(transport=httpx2.MockTransport(answer))
    with (
        anthropic.Anthropic(base_url="http://x", api_key="x", max_retries=0, http_client=http) as client,
        client.messages.stream(model="tiny-chat", max_tokens=7, messages=SAID) as stream,
    ):
        return stream.get_final_message()


async def waited(worker: Callable[[asyncio.Event], Script]) -> Answered:
    """Return the answer of a worker that lets the client wait until it had two pings."""
    go = asyncio.Event()
    running = gateway({GENERATE_PATH: worker(go)}, keep_alive_s=0.05)
    waiting = asyncio.create_task(running.client.post(PATH, STREAM))
    await eventually(
        lambda: bool(running.client.connections and len(running.client.connections[0].pieces) > 1), "pings"
    )
    go.set()
    return await waiting


async def test_pings_may_come_before_the_message_begins() -> None:
    usage = {"input_tokens": 3, "output_tokens": 0}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    begun = b"event: message_start\ndata: %b\n\n" % orjson.dumps({"type": "message_start", "message": message})
    answer = await waited(lambda go: streamed(go, begun + STOP + USAGE))
    assert answer.body.startswith(PING + PING)
    assert answer.body.replace(PING, b"") == begun + STOP
    assert read_by_sdk(answer.body).id == "msg_1"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, "rate_limit_error"), (502, "api_error"), (503, "overloaded_error"), (504, "timeout_error")],
)
async def test_what_fails_behind_a_ping_is_an_event_of_the_stream(status: int, kind: str) -> None:
    def failing(go: asyncio.Event) -> Script:
        known = refused(status, "Not now.")
        return lambda _: FakeAnswer(known.status, known.headers, (go, *known.pieces))

    answer = await waited(failing)
    assert answer.status == 200
    name, data, *_ = answer.body.replace(PING, b"").split(b"\n")
    assert (name, ErrorAnswer.model_validate_json(data.removeprefix(b"data: ")).error.type) == (b"event: error", kind)
    with pytest.raises(anthropic.APIStatusError, match="Not now") as failed:
        read_by_sdk(answer.body)
    assert (failed.value.status_code, failed.value.type) == (200, kind)
