"""Sends an answer to the gateway over ASGI, as a stream of events or as one JSON body.

The status goes out with the first thing that is sent: until then whatever fails is a status of its own.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from conch_contracts.messages.generation import Api, GenerateRequest, Usage
from conch_kit.errors import ServiceError
from conch_kit.http.asgi import Send, json_response
from conch_kit.http.worker_answers import WORKING, begin_stream, usage_comment, usage_header
from conch_llm_worker.anthropic.complete_message import CompleteMessage
from conch_llm_worker.bodies.best_of import best
from conch_llm_worker.bodies.complete_body import ChoiceBody, complete_body, shown_logprobs
from conch_llm_worker.frames.answer_frames import frames_for
from conch_llm_worker.generation.choice_update import ChoiceUpdate
from conch_llm_worker.responses.complete_response import CompleteResponse
from conch_llm_worker.text.vocabulary import Vocabulary

_LONGEST_QUIET_S = 1.0
"""How long the engine may make tokens that show nothing before the gateway gets a comment; well below its patience."""


class AnswerWriter(Protocol):
    """One answer on its way to the client."""

    @property
    def started(self) -> bool:
        """Whether the status has gone out."""
        ...

    async def add(self, index: int, update: ChoiceUpdate) -> None:
        """Add what one engine message brought to a choice; waits while the reader is slow."""
        ...

    async def working(self) -> None:
        """Note an engine message that brought nothing to a choice which has begun."""
        ...

    async def finish(self, usage: Usage) -> None:
        """End a complete answer."""
        ...

    async def fail(self, error: ServiceError, usage: Usage) -> None:
        """End an answer that broke after its first byte."""
        ...


def answer_for(request: GenerateRequest, vocabulary: Vocabulary, send: Send) -> AnswerWriter:
    """Return what sends the answer to a request."""
    if request.stream:
        return StreamedAnswerWriter(request, vocabulary, send)
    if request.api is Api.RESPONSES:
        return CompleteObjectWriter(CompleteResponse(request, vocabulary), send)
    if request.api is Api.MESSAGES:
        return CompleteObjectWriter(CompleteMessage(request), send)
    return CompleteAnswerWriter(request, vocabulary, send)


class StreamedAnswerWriter:
    """Server-sent events."""

    def __init__(
        self,
        request: GenerateRequest,
        vocabulary: Vocabulary,
        send: Send,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.started = False
        self._frames = frames_for(request, vocabulary)
        self._send = send
        self._clock = clock
        self._quiet_s = min(_LONGEST_QUIET_S, request.inter_token_timeout_s / 4)
        self._last_comment = clock()
        """When the last comment went out that the engine works."""
        self._opened: set[int] = set()
        self._starting = asyncio.Lock()

    async def add(self, index: int, update: ChoiceUpdate) -> None:
        """Send the frames of one update."""
        body = b""
        if index not in self._opened:
            self._opened.add(index)
            body = self._frames.opening(index)
            if not self.started:
                await self._start()
        body += self._frames.update(index, update)
        if body:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
        else:
            await self.working()

    async def working(self) -> None:
        """Tell the gateway in a comment that the engine works, unless the last comment has just gone out."""
        now = self._clock()
        if now - self._last_comment >= self._quiet_s:
            self._last_comment = now
            await self._send({"type": "http.response.body", "body": WORKING, "more_body": True})

    async def finish(self, usage: Usage) -> None:
        """Send what the stream ends with, and the comment for the gateway."""
        await self._end(self._frames.ending(usage) + usage_comment(usage))

    async def fail(self, error: ServiceError, usage: Usage) -> None:
        """Send the error and the comment for the gateway."""
        await self._end(self._frames.failure(error, usage) + usage_comment(usage))

    async def _start(self) -> None:
        async with self._starting:  # choices begin at the same time
            if not self.started:
                await begin_stream(self._send)
                self.started = True

    async def _end(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


class CompleteAnswerWriter:
    """One JSON body; nothing is sent before the end, so any failure is a status."""

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary, send: Send) -> None:
        self.started = False
        self._request = request
        self._vocabulary = vocabulary
        self._send = send
        self._shown = shown_logprobs(request, vocabulary)
        self._choices = [ChoiceBody() for _ in range(len(request.prompts) * request.candidates)]

    async def add(self, index: int, update: ChoiceUpdate) -> None:
        """Collect one update."""
        choice = self._choices[index]
        choice.add(update)
        if self._request.logprobs and update.entries:
            choice.logprobs(self._shown)

    async def working(self) -> None:
        """Do nothing: whoever waits for a whole body expects nothing before it."""

    async def finish(self, usage: Usage) -> None:
        """Send the body, and the usage in its header."""
        body = complete_body(self._request, best(self._request, self._choices), usage, self._vocabulary)
        self.started = True
        await json_response(self._send, 200, body, [usage_header(usage)])

    async def fail(self, error: ServiceError, usage: Usage) -> None:
        """Raise: nothing has been sent."""
        raise error


class AnswerObject(Protocol):
    """One answer of an API that makes a single one."""

    def add(self, update: ChoiceUpdate) -> None:
        """Take one update."""
        ...

    def body(self, usage: Usage) -> bytes:
        """Return the complete answer."""
        ...


class CompleteObjectWriter:
    """One object; nothing is sent before the end, so any failure is a status."""

    def __init__(self, answer: AnswerObject, send: Send) -> None:
        self.started = False
        self._answer = answer
        self._send = send

    async def add(self, index: int, update: ChoiceUpdate) -> None:
        """Collect one update."""
        self._answer.add(update)

    async def working(self) -> None:
        """Do nothing: whoever waits for a whole body expects nothing before it."""

    async def finish(self, usage: Usage) -> None:
        """Send the object, and the usage in its header."""
        self.started = True
        await json_response(self._send, 200, self._answer.body(usage), [usage_header(usage)])

    async def fail(self, error: ServiceError, usage: Usage) -> None:
        """Raise: nothing has been sent."""
        raise error
