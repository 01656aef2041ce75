"""The way of one file: windows as its sound is decoded, engines that hear several at a time, segments in order."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_contracts.messages.transcription import SpeechUsage, TranscribeRequest
from conch_speech_worker.engine.prompts import candidate_ids, language_id_of, prompt_of
from conch_speech_worker.transcript.segments import HeardWindow, Segment, segments_of
from conch_speech_worker.vocabulary import TranscriptVocabulary
from conch_speech_worker.windows.coverage import uncovered_from
from conch_speech_worker.windows.cutting import Window, WindowCutter
from conch_speech_worker.windows.loudness import Samples, is_silent

MOST_AT_ONCE = 4
"""Windows of one file that an engine has at a time."""
_HEARD_AGAIN = 2
"""How often the rest of a window is heard again."""
_POSITIONS_OF_S = 50
"""Positions of the encoder that a second of sound takes."""

Hear = Callable[[Samples, tuple[int, ...]], Awaitable[HeardWindow]]
"""Has an engine hear samples behind a prompt; raises EngineError."""


class Sound(Protocol):
    """The samples of a file as they are decoded."""

    async def read(self) -> bytes:
        """Return the next ones, empty at the end; raises InvalidRequest."""
        ...


@dataclass(slots=True)
class HeardCounts:
    """What a request has used so far."""

    samples: int = 0
    windows: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def usage(self) -> SpeechUsage:
        """Return it as messages have it."""
        audio_s = self.samples / SAMPLE_RATE
        return SpeechUsage(
            audio_s=audio_s,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            audio_tokens=round(audio_s * _POSITIONS_OF_S),
        )


@dataclass(frozen=True, slots=True)
class _WindowSegments:
    """The segments of one window, and the id of the language that it was heard in."""

    segments: tuple[Segment, ...]
    language_id: int | None


class FileHearing:
    """Hears one file."""

    def __init__(self, request: TranscribeRequest, vocabulary: TranscriptVocabulary, hear: Hear) -> None:
        """Raise InvalidRequest for a language or a task that the model does not know."""
        self.counts = HeardCounts()
        self.language = request.language
        """Known from the first window on."""
        self._request = request
        self._vocabulary = vocabulary
        self._hear = hear
        self._language_id = language_id_of(request, vocabulary)
        candidate_ids(request, vocabulary)
        prompt_of(request, self._language_id, vocabulary)

    async def segments(self, sound: Sound) -> AsyncGenerator[tuple[Segment, ...], None]:
        """Yield the segments of window after window; raises InvalidRequest and EngineError."""
        waiting: deque[asyncio.Task[_WindowSegments]] = deque()
        try:
            async for window in self._windows(sound):
                if self._finds_language:
                    yield self._learned(await self._all_of(window))
                    continue
                waiting.append(asyncio.create_task(self._all_of(window)))
                while waiting and (len(waiting) == MOST_AT_ONCE or waiting[0].done()):
                    yield self._learned(await waiting.popleft())
            while waiting:
                yield self._learned(await waiting.popleft())
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    @property
    def _finds_language(self) -> bool:
        return self._request.target.multilingual and self._language_id is None

    async def _windows(self, sound: Sound) -> AsyncIterator[Window]:
        """Yield the windows in which there is anything to be heard."""
        cutter = WindowCutter()
        while samples := await sound.read():
            for window in cutter.feed(samples):
                if not is_silent(window.samples):
                    yield window
            self.counts.samples = cutter.heard
        for window in cutter.end():
            if not is_silent(window.samples):
                yield window

    async def _all_of(self, window: Window) -> _WindowSegments:
        """Return what is said in a window, to its end."""
        found: list[Segment] = []
        language_id, part = self._language_id, window
        for _ in range(_HEARD_AGAIN + 1):
            heard = await self._heard(part, language_id)
            language_id = heard.language_id if language_id is None else language_id
            segments = segments_of(
                heard,
                self._vocabulary,
                start_s=part.start_s,
                length_s=part.length_s,
                after_s=found[-1].end if found else 0.0,
            )
            found += segments
            again = uncovered_from(part.samples, segments[-1].end - part.start_s) if segments else None
            if again is None:
                break
            part = part.rest(again)
        return _WindowSegments(tuple(found), language_id)

    async def _heard(self, part: Window, language_id: int | None) -> HeardWindow:
        prompt = prompt_of(self._request, language_id, self._vocabulary)
        self.counts.windows += 1
        heard = await self._hear(part.samples, prompt)
        self.counts.prompt_tokens += heard.prompt_tokens
        self.counts.completion_tokens += heard.completion_tokens
        return heard

    def _learned(self, part: _WindowSegments) -> tuple[Segment, ...]:
        if self._finds_language and part.language_id is not None and part.language_id >= 0:
            self._language_id = part.language_id
            self.language = self._vocabulary.language_of(part.language_id)
        return part.segments
