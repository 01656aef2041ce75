"""Whole answers, in the form that was asked for."""

import math
from collections.abc import Sequence
from typing import Any

import orjson

from conch_contracts.messages.transcription import SpeechTask, SpeechUsage, TranscribeRequest, TranscriptFormat
from conch_contracts.records import Profile
from conch_speech_worker.language_names import LANGUAGE_NAMES
from conch_speech_worker.transcript.segments import Segment
from conch_speech_worker.transcript.subtitles import srt, vtt
from conch_speech_worker.vocabulary import TranscriptVocabulary


def text_of(segments: Sequence[Segment]) -> str:
    """Return the whole text."""
    return "".join(segment.text for segment in segments).strip()


def body(
    request: TranscribeRequest,
    segments: Sequence[Segment],
    language: str | None,
    usage: SpeechUsage,
    vocabulary: TranscriptVocabulary,
) -> bytes:
    """Return the answer."""
    match request.format:
        case TranscriptFormat.TEXT:
            return (text_of(segments) + "\n").encode()
        case TranscriptFormat.SRT:
            return srt(segments).encode()
        case TranscriptFormat.VTT:
            return vtt(segments).encode()
        case TranscriptFormat.JSON:
            return orjson.dumps(_plain(request, segments, usage, vocabulary))
        case TranscriptFormat.VERBOSE_JSON:
            return orjson.dumps(_verbose(request, segments, language, usage))


def _plain(
    request: TranscribeRequest, segments: Sequence[Segment], usage: SpeechUsage, vocabulary: TranscriptVocabulary
) -> dict[str, Any]:
    said: dict[str, Any] = {"text": text_of(segments)}
    if request.logprobs:
        said["logprobs"] = [entry for segment in segments for entry in logprobs_of(segment, vocabulary)]
    return {**said, "usage": _seconds(usage)}


def _verbose(
    request: TranscribeRequest, segments: Sequence[Segment], language: str | None, usage: SpeechUsage
) -> dict[str, Any]:
    code = "en" if request.task is SpeechTask.TRANSLATE else language or _unheard(request)
    said: dict[str, Any] = {
        "task": request.task.value,
        "language": code if request.profile is Profile.VLLM else LANGUAGE_NAMES.get(code, code),
        "duration": round(usage.audio_s, 3),
        "text": text_of(segments),
    }
    if request.segments:
        said["segments"] = [_segment(number, one) for number, one in enumerate(segments)]
    if request.words:
        words = (word for segment in segments for word in segment.words)
        said["words"] = [{"word": word.text, "start": word.start, "end": word.end} for word in words]
    return {**said, "usage": _seconds(usage)}


def _unheard(request: TranscribeRequest) -> str:
    """Return the language of a file in which nothing was said: clients read one of the known names there."""
    return request.languages[0] if request.languages else "en"


def _segment(number: int, segment: Segment) -> dict[str, Any]:
    return {
        "id": number,
        "seek": segment.seek,
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "tokens": segment.ids,
        "temperature": segment.temperature,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob or 0.0,
    }


def logprobs_of(segment: Segment, vocabulary: TranscriptVocabulary) -> list[dict[str, Any]]:
    """Return the tokens of a segment with their log probabilities."""
    tokens = (
        (vocabulary.token_bytes(number), said) for number, said in zip(segment.ids, segment.logprobs, strict=True)
    )
    return [{"token": _token(raw), "bytes": list(raw), "logprob": said} for raw, said in tokens]


def _token(raw: bytes) -> str:
    """Return a token as text, where a byte of a character of several tokens is a backslash, x and two hex digits."""
    return raw.decode(errors="backslashreplace")


def _seconds(usage: SpeechUsage) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(usage.audio_s)}
