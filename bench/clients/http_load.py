"""The HTTP client of both measurements: chat requests to a gateway, or to nginx, over raw sockets."""

import asyncio
import re
import sys
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import orjson
import uvloop

from bench import conversations
from bench.clients.connection import Answer, Connection, EventTally
from bench.clients.messages import Load, LoadResult, StreamCount
from bench.clients.server import ClosedLoop, RequestFailed, Sample, serve

_COMPLETION_TOKENS = re.compile(rb'"completion_tokens":\s*(\d+)')
_REQUEST_TIMEOUT_S = 120.0
_PATH = "/v1/chat/completions"


class HttpClient:
    """Posts chat requests to one address, or spreads its connections evenly over several."""

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self._addresses = addresses
        self._conversations = conversations.load()
        self._tally = EventTally()
        self._idle: dict[int, Connection] = {}
        self._open: list[Connection] = []
        self._errors: list[str] = []

    async def load(self, load: Load) -> LoadResult:
        """Run a closed loop of chat requests, one kept connection per slot."""
        requests = [self._request(conversation, load) for conversation in self._conversations]

        async def request(slot: int, number: int) -> Sample:
            return await self._ask(slot, requests[number % len(requests)], load)

        return await ClosedLoop(load, request).run()

    async def open(self, load: Load) -> StreamCount:
        """Open streams that are left running, one after the other; return when each has brought an event."""
        self._tally.events = self._tally.reads = 0
        self._errors = []
        for number in range(load.streams):
            connection = await self._connect(number)
            connection.begin(self._request(self._conversations[number % len(self._conversations)], load))
            self._open.append(connection)
            try:
                await connection.first_event(_REQUEST_TIMEOUT_S)
            except (ConnectionError, TimeoutError) as exc:
                self._errors.append(f"A stream brought no event: {exc}")
                break
        return self.count()

    def count(self) -> StreamCount:
        """Return how much the open streams have brought."""
        alive = sum(not connection.closed for connection in self._open)
        return StreamCount(self._tally.events, self._tally.reads, alive, time.process_time(), self._errors)

    async def close(self) -> StreamCount:
        """Hang up on all open streams."""
        counted = self.count()
        for connection in self._open:
            connection.close()
        self._open.clear()
        await asyncio.sleep(0.1)
        return counted

    async def _connect(self, slot: int) -> Connection:
        loop = asyncio.get_running_loop()
        host, port = self._addresses[slot % len(self._addresses)]
        _, connection = await loop.create_connection(lambda: Connection(self._tally), host, port)
        return connection

    def _request(self, conversation: conversations.Conversation, load: Load) -> bytes:
        body: dict[str, object] = {
            "model": conversations.MODEL_NAME,
            "messages": conversation.messages,
            "temperature": 0,
            "max_tokens": load.max_tokens,
            "ignore_eos": True,
            "stream": load.stream,
        }
        if load.stream:
            body["stream_options"] = {"include_usage": True}
        content = orjson.dumps(body)
        host, port = self._addresses[0]
        head = (
            f"POST {_PATH} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer bench\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content

    async def _ask(self, slot: int, request: bytes, load: Load) -> Sample:
        connection = self._idle.pop(slot, None)
        if connection is None or connection.closed:
            connection = await self._connect(slot)
        answer = connection.begin(request)
        try:
            await connection.finished(_REQUEST_TIMEOUT_S)
        except (ConnectionError, TimeoutError) as exc:
            connection.close()
            raise RequestFailed(f"No complete answer: {exc or type(exc).__name__}") from exc
        took = time.monotonic() - answer.started
        self._idle[slot] = connection
        return Sample(answer.first_text_s, took, _tokens(answer, load))


def _tokens(answer: Answer, load: Load) -> int:
    if answer.status != 200:
        raise RequestFailed(f"Status {answer.status}: {answer.tail[:300]!r}")
    found = _COMPLETION_TOKENS.search(answer.tail)
    if found is None:
        raise RequestFailed(f"The answer has no usage: {answer.tail[-300:]!r}")
    tokens = int(found[1])
    if tokens != load.max_tokens:
        raise RequestFailed(f"{tokens} tokens came instead of {load.max_tokens}.")
    return tokens


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


async def _main(urls: Sequence[str]) -> None:
    client = HttpClient([_address(url) for url in urls])
    await serve(client, client)


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1:]))
