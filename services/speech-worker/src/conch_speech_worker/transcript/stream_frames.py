"""The events of a streamed transcript: OpenAI's, and vLLM's chunks."""

from collections.abc import Sequence
from typing import Any, Protocol

import orjson

from conch_contracts.messages.transcription import SpeechTask, SpeechUsage, TranscribeRequest
from conch_kit.errors import ServiceError
from conch_speech_worker.transcript.bodies import logprobs_of
from conch_speech_worker.transcript.segments import Segment
from conch_speech_worker.vocabulary import TranscriptVocabulary

DONE = b"data: [DONE]\n\n"


class StreamFrames(Protocol):
    """Writes one stream."""

    def add(self, segments: Sequence[Segment], usage: SpeechUsage) -> bytes:
        """Return the frames of some more segments."""
        ...

    def ending(self, usage: SpeechUsage) -> bytes:
        """Return how a complete stream ends."""
        ...


def frames_for(request: TranscribeRequest, vocabulary: TranscriptVocabulary) -> StreamFrames:
    """Return what writes the stream that was asked for."""
    return ChunkFrames(request) if request.stream == "vllm" else EventFrames(request, vocabulary)


def failure(error: ServiceError) -> bytes:
    """Return the error that ends a stream which broke; no `[DONE]` follows it."""
    return b"data: " + error.body() + b"\n\n"


class SegmentDeltas:
    """Makes deltas whose join is the whole text: no space at either end."""

    def __init__(self) -> None:
        self.text = ""
        self._held = ""
        """Spaces that belong to the text only if more follows."""

    def of(self, piece: str) -> str:
        """Return what a piece adds."""
        whole = self._held + piece if self.text else piece.lstrip()
        delta = whole.rstrip()
        self._held = whole[len(delta) :]
        self.text += delta
        return delta


class EventFrames:
    """OpenAI's events, a delta for each segment."""

    def __init__(self, request: TranscribeRequest, vocabulary: TranscriptVocabulary) -> None:
        self._shows_logprobs = request.logprobs
        self._vocabulary = vocabulary
        self._texts = SegmentDeltas()
        self._logprobs: list[dict[str, Any]] = []

    def add(self, segments: Sequence[Segment], usage: SpeechUsage) -> bytes:
        """Return a delta for each segment."""
        return b"".join(self._delta(segment) for segment in segments)

    def _delta(self, segment: Segment) -> bytes:
        event: dict[str, Any] = {"type": "transcript.text.delta", "delta": self._texts.of(segment.text)}
        if self._shows_logprobs:
            event["logprobs"] = logprobs_of(segment, self._vocabulary)
            self._logprobs += event["logprobs"]
        return _frame(event)

    def ending(self, usage: SpeechUsage) -> bytes:
        """Return the event with the whole text, and `[DONE]`."""
        event: dict[str, Any] = {"type": "transcript.text.done", "text": self._texts.text}
        if self._shows_logprobs:
            event["logprobs"] = self._logprobs
        return _frame({**event, "usage": _tokens(usage)}) + DONE


class ChunkFrames:
    """vLLM's chunks, one for each segment."""

    def __init__(self, request: TranscribeRequest) -> None:
        self._request = request
        self._texts = SegmentDeltas()
        kind = "transcription" if request.task is SpeechTask.TRANSCRIBE else "translation"
        self._head = {
            "id": f"{'trsc' if kind == 'transcription' else 'trsl'}-{request.request_id}",
            "object": f"{kind}.chunk",
            "created": request.created,
            "model": request.model,
        }

    def add(self, segments: Sequence[Segment], usage: SpeechUsage) -> bytes:
        """Return a chunk for each segment."""
        return b"".join(self._chunk(self._texts.of(segment.text), None, usage) for segment in segments)

    def ending(self, usage: SpeechUsage) -> bytes:
        """Return the finishing chunk, the usage where it was asked for, and `[DONE]`."""
        end = self._chunk("", "stop", usage)
        if self._request.include_usage:
            end += _frame({**self._head, "choices": [], "usage": _counts(usage)})
        return end + DONE

    def _chunk(self, text: str, finish_reason: str | None, usage: SpeechUsage) -> bytes:
        chunk: dict[str, Any] = {
            **self._head,
            "choices": [{"delta": {"content": text}, "finish_reason": finish_reason}],
        }
        if self._request.continuous_usage:
            chunk["usage"] = _counts(usage)
        return _frame(chunk)


def _tokens(usage: SpeechUsage) -> dict[str, Any]:
    """Return the usage as OpenAI's events have it."""
    given = usage.prompt_tokens + usage.audio_tokens
    return {
        "type": "tokens",
        "input_tokens": given,
        "output_tokens": usage.completion_tokens,
        "total_tokens": given + usage.completion_tokens,
        "input_token_details": {"text_tokens": usage.prompt_tokens, "audio_tokens": usage.audio_tokens},
    }


def _counts(usage: SpeechUsage) -> dict[str, int]:
    """Return it as vLLM's chunks have it."""
    given = usage.prompt_tokens + usage.audio_tokens
    return {
        "prompt_tokens": given,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": given + usage.completion_tokens,
    }


def _frame(event: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(event) + b"\n\n"
