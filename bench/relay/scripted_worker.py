"""An llm-worker without a model: answers every request at once with a fixed body, or with events at a fixed pace.

It speaks the internal contract of `conch_contracts.messages.generation` as far as a relay can see it, on any path, so
that the gateway and nginx have the same upstream. Streams go on until the other side hangs up, and bring as many events
a second as the request asks for tokens. Each event is one chunk in one write, so that what is measured per event is the
cost of a single one.
"""

import asyncio
import re
import sys
from collections.abc import Mapping
from typing import cast

import msgspec
import orjson
import uvloop

from conch_contracts.headers import USAGE
from conch_contracts.messages.generation import Usage
from conch_contracts.messages.message import to_json

COMPLETION_TOKENS = 16
_STREAMED = re.compile(rb'"stream":\s*true')
_EVENTS_PER_S = re.compile(rb'"max_tokens":\s*(\d+)')
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


def _chat_object(kind: str, choice: Mapping[str, object], **more: object) -> bytes:
    head = {"id": "chatcmpl-0123456789abcdef01234567", "object": kind, "created": 1800000000, "model": "tiny-chat"}
    return orjson.dumps({**head, "choices": [{"index": 0, **choice, "finish_reason": None}], **more})


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event() -> bytes:
    choice = {"delta": {"content": " word"}, "logprobs": None}
    return _chunk(b"data: " + _chat_object("chat.completion.chunk", choice) + b"\n\n")


def _complete() -> bytes:
    usage = Usage(prompt_tokens=13, completion_tokens=COMPLETION_TOKENS)
    text = "Hello! How can I help you today?"
    body = _chat_object(
        "chat.completion",
        {"message": {"role": "assistant", "content": text}, "logprobs": None},
        usage={**msgspec.structs.asdict(usage), "total_tokens": 13 + COMPLETION_TOKENS},
    )
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{USAGE}: {to_json(usage).decode()}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


_EVENT = _event()
_COMPLETE = _complete()
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class ScriptedAnswers(asyncio.Protocol):
    """One connection of a relay."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class, a transport all the same

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(received, 0, end + 2)
        size = end + 4 + (int(length[1]) if length else 0)
        if len(received) < size:
            return
        self._received = received[size:]
        self._answer(received[end + 4 : size])

    def _answer(self, body: bytes) -> None:
        assert self._transport is not None
        if not _STREAMED.search(body):
            self._transport.write(_COMPLETE)
            return
        self._transport.write(_STREAM_HEAD)
        asked = _EVENTS_PER_S.search(body)
        loop = asyncio.get_running_loop()
        self._send_event(loop, loop.time(), 1 / int(asked[1]) if asked else 1.0)

    def _send_event(self, loop: asyncio.AbstractEventLoop, due: float, interval_s: float) -> None:
        assert self._transport is not None
        self._transport.write(_EVENT)
        following = due + interval_s
        self._timer = loop.call_at(following, self._send_event, loop, following, interval_s)


async def _main(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(ScriptedAnswers, "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
