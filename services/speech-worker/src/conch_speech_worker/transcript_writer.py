"""Sends an answer to the gateway over ASGI, as a stream of events or as one body.

The status goes out with the first thing that is sent: until then whatever fails is a status of its own, and another
engine may be asked. A stream whose first window takes long gives that up, before the gateway takes it for lost.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from conch_contracts.messages.transcription import SpeechUsage, TranscribeRequest
from conch_kit.errors import ServiceError
from conch_kit.http.asgi import Send, respond
from conch_kit.http.worker_answers import WORKING, begin_stream, usage_comment, usage_header
from conch_speech_worker.transcript.bodies import body
from conch_speech_worker.transcript.segments import Segment
from conch_speech_worker.transcript.stream_frames import failure, frames_for
from conch_speech_worker.vocabulary import TranscriptVocabulary

_LONGEST_QUIET_S = 1.0
"""How long an engine may work without a segment before the gateway gets a comment; well below its patience."""


class TranscriptWriter(Protocol):
    """One answer on its way to the client."""

    @property
    def started(self) -> bool:
        """Whether the status has gone out."""
        ...

    async def add(self, segments: tuple[Segment, ...], usage: SpeechUsage) -> None:
        """Add what was heard next; waits while the reader is slow."""
        ...

    async def working(self) -> None:
        """Note that an engine works."""
        ...

    async def finish(self, language: str | None, usage: SpeechUsage) -> None:
        """End a complete answer."""
        ...

    async def fail(self, error: ServiceError, usage: SpeechUsage) -> None:
        """End an answer that broke after its first byte."""
        ...


def answer_for(request: TranscribeRequest, vocabulary: TranscriptVocabulary, send: Send) -> TranscriptWriter:
    """Return what sends the answer to a request."""
    kind = WholeTranscript if request.stream is None else StreamedTranscript
    return kind(request, vocabulary, send)


class StreamedTranscript:
    """Server-sent events."""

    def __init__(
        self,
        request: TranscribeRequest,
        vocabulary: TranscriptVocabulary,
        send: Send,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.started = False
        self._frames = frames_for(request, vocabulary)
        self._send = send
        self._clock = clock
        self._quiet_s = min(_LONGEST_QUIET_S, request.inter_token_timeout_s / 4)
        self._status_s = request.first_token_timeout_s / 2
        """How long the status waits for the first segment; the gateway waits longer than the whole time-out."""
        self._last_sent = clock()
        self._writing = asyncio.Lock()

    async def add(self, segments: tuple[Segment, ...], usage: SpeechUsage) -> None:
        """Send the frames of some segments."""
        frames = self._frames.add(segments, usage)
        if frames:
            await self._write(frames, more=True)

    async def working(self) -> None:
        """Tell the gateway in a comment that an engine works, unless it has just heard of something."""
        if self._clock() - self._last_sent >= (self._quiet_s if self.started else self._status_s):
            await self._write(WORKING, more=True)

    async def finish(self, language: str | None, usage: SpeechUsage) -> None:
        """Send what the stream ends with, and the comment for the gateway."""
        await self._write(self._frames.ending(usage) + usage_comment(usage), more=False)

    async def fail(self, error: ServiceError, usage: SpeechUsage) -> None:
        """Send the error and the comment for the gateway."""
        await self._write(failure(error) + usage_comment(usage), more=False)

    async def _write(self, data: bytes, *, more: bool) -> None:
        async with self._writing:  # comments come beside the frames
            if not self.started:
                await begin_stream(self._send)
                self.started = True
            self._last_sent = self._clock()
            await self._send({"type": "http.response.body", "body": data, "more_body": more})


class WholeTranscript:
    """One body; nothing is sent before the end, so any failure is a status."""

    def __init__(self, request: TranscribeRequest, vocabulary: TranscriptVocabulary, send: Send) -> None:
        self.started = False
        self._request = request
        self._vocabulary = vocabulary
        self._send = send
        self._segments: list[Segment] = []

    async def add(self, segments: tuple[Segment, ...], usage: SpeechUsage) -> None:
        """Collect some segments."""
        self._segments += segments

    async def working(self) -> None:
        """Do nothing: whoever waits for a whole body expects nothing before it."""

    async def finish(self, language: str | None, usage: SpeechUsage) -> None:
        """Send the body, and the usage in its header."""
        answer = body(self._request, self._segments, language, usage, self._vocabulary)
        self.started = True
        headers = [(b"content-type", self._request.format.media_type.encode()), usage_header(usage)]
        await respond(self._send, 200, answer, headers)

    async def fail(self, error: ServiceError, usage: SpeechUsage) -> None:
        """Raise: nothing has been sent."""
        raise error
