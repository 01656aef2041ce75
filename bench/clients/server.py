"""The client's side of the conversation: reads commands from stdin and answers them until stdin closes."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Protocol

import orjson

from bench.clients.messages import Load, LoadResult, StreamCount, decode

MAX_ERRORS = 3


class Client(Protocol):
    """What a load client can do."""

    async def load(self, load: Load) -> LoadResult: ...


class Streams(Protocol):
    """What a client can do that also holds endless streams."""

    async def open(self, load: Load) -> StreamCount: ...

    def count(self) -> StreamCount: ...

    async def close(self) -> StreamCount: ...


@dataclass(slots=True)
class Sample:
    """One finished request."""

    first_token_s: float
    request_s: float
    tokens: int


class RequestFailed(Exception):
    """A request ended without the answer that was expected."""


async def serve(client: Client, streams: Streams | None = None) -> None:
    """Answer commands, one after the other; without `streams` nobody asks for endless ones."""
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        command, load = decode(line)
        answer: LoadResult | StreamCount
        match command:
            case "load":
                assert load is not None
                answer = await client.load(load)
            case "open":
                assert load is not None
                assert streams is not None
                answer = await streams.open(load)
            case "count":
                assert streams is not None
                answer = streams.count()
            case "close":
                assert streams is not None
                answer = await streams.close()
        sys.stdout.buffer.write(orjson.dumps(asdict(answer)) + b"\n")
        sys.stdout.buffer.flush()


@dataclass(slots=True)
class ClosedLoop:
    """Runs one load: every slot calls `request(number)` again and again."""

    load: Load
    request: Callable[[int, int], Awaitable[Sample]]
    """Takes the slot and the number of the request."""
    result: LoadResult = field(default_factory=LoadResult)
    _begun: int = 0

    async def run(self) -> LoadResult:
        """Run to the end and return what was done; the first errors end the load."""
        started, cpu = time.monotonic(), time.process_time()
        async with asyncio.TaskGroup() as slots:
            for slot in range(self.load.streams):
                slots.create_task(self._slot(slot, started + self.load.seconds))
        self.result.wall_s = time.monotonic() - started
        self.result.cpu_s = time.process_time() - cpu
        return self.result

    async def _slot(self, slot: int, deadline: float) -> None:
        result = self.result
        while len(result.errors) < MAX_ERRORS:
            if self._begun >= self.load.requests and time.monotonic() >= deadline:
                return
            number, self._begun = self._begun, self._begun + 1
            try:
                sample = await self.request(slot, number)
            except RequestFailed as exc:
                result.errors.append(str(exc))
                continue
            result.requests += 1
            result.tokens += sample.tokens
            result.first_token_s.append(sample.first_token_s)
            result.request_s.append(sample.request_s)
