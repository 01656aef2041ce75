"""Sends an answer to the gateway over ASGI, as a stream of events or as one JSON body.

The status goes out with the first thing that is sent: until then whatever fails is a status of its own.
"""

import asyncio
from typing import Protocol

from conch_contracts.generation import GenerateRequest, Usage
from conch_contracts.headers import USAGE
from conch_kit.asgi import Send, json_response
from conch_kit.errors import ServiceError
from conch_llm_worker.bodies import Choice, complete_body
from conch_llm_worker.frames import DONE, error_frame, frames_for, usage_comment
from conch_llm_worker.generation import Step
from conch_llm_worker.vocabulary import Vocabulary


class Answer(Protocol):
    """One answer on its way to the client."""

    @property
    def started(self) -> bool:
        """Whether the status has gone out."""
        ...

    async def add(self, index: int, step: Step) -> None:
        """Add what one engine message brought to a choice; waits while the reader is slow."""
        ...

    async def finish(self, usage: Usage) -> None:
        """End a complete answer."""
        ...

    async def fail(self, error: ServiceError, usage: Usage) -> None:
        """End an answer that broke after its first byte."""
        ...


class StreamedAnswer:
    """Server-sent events."""

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary, send: Send) -> None:
        self.started = False
        self._include_usage = request.include_usage
        self._frames = frames_for(request, vocabulary)
        self._send = send
        self._opened: set[int] = set()
        self._starting = asyncio.Lock()

    async def add(self, index: int, step: Step) -> None:
        """Send the frames of one step."""
        body = self._frames.step(index, step)
        if index not in self._opened:
            self._opened.add(index)
            body = self._frames.opening(index) + body
            if not self.started:
                await self._start()
        if body:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def finish(self, usage: Usage) -> None:
        """Send the usage where it was asked for, `[DONE]`, and the comment for the gateway."""
        body = self._frames.usage(usage) if self._include_usage else b""
        await self._end(body + DONE + usage_comment(usage))

    async def fail(self, error: ServiceError, usage: Usage) -> None:
        """Send the error and the comment for the gateway; no `[DONE]`."""
        await self._end(error_frame(error.body()) + usage_comment(usage))

    async def _start(self) -> None:
        async with self._starting:  # choices begin at the same time
            if not self.started:
                headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
                await self._send({"type": "http.response.start", "status": 200, "headers": headers})
                self.started = True

    async def _end(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


class CompleteAnswer:
    """One JSON body; nothing is sent before the end, so any failure is a status."""

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary, send: Send) -> None:
        self.started = False
        self._request = request
        self._vocabulary = vocabulary
        self._send = send
        self._choices = [Choice() for _ in range(len(request.prompts) * request.n)]

    async def add(self, index: int, step: Step) -> None:
        """Collect one step."""
        self._choices[index].add(step)

    async def finish(self, usage: Usage) -> None:
        """Send the body, and the usage in its header."""
        body = complete_body(self._request, self._choices, usage, self._vocabulary)
        self.started = True
        await json_response(
            self._send, 200, body, [(USAGE.encode(), usage.model_dump_json(exclude_none=True).encode())]
        )

    async def fail(self, error: ServiceError, usage: Usage) -> None:
        """Raise: nothing has been sent."""
        raise error
