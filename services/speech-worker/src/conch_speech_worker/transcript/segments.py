"""From the ids of one window to segments: pieces of text between two times."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from conch_speech_worker.transcript.words import Word, words_of
from conch_speech_worker.vocabulary import TranscriptVocabulary

_SEEK_S = 0.01
"""A segment's `seek` counts these."""


@dataclass(frozen=True, slots=True)
class HeardWindow:
    """What an engine made of one window."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    avg_logprob: float
    temperature: float
    no_speech_prob: float | None
    language_id: int | None
    times: tuple[float, ...] | None = None
    """Where each id begins, and the last one ends, in seconds of the window; None where nobody asked."""
    prompt_tokens: int = 0
    """Tokens that the engine was given."""
    completion_tokens: int = 0
    """Tokens that it has made."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the transcript; times are seconds of the file."""

    start: float
    end: float
    text: str
    """As the model wrote it, a leading space included."""
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    window_start: float
    avg_logprob: float
    temperature: float
    compression_ratio: float
    no_speech_prob: float | None
    words: tuple[Word, ...] = ()

    @property
    def seek(self) -> int:
        """Return where its window begins, in hundredths of a second."""
        return round(self.window_start / _SEEK_S)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Ids of text with the times around them."""

    start: float
    end: float
    first: int
    after: int


def segments_of(
    heard: HeardWindow, vocabulary: TranscriptVocabulary, *, start_s: float, length_s: float, after_s: float = 0.0
) -> tuple[Segment, ...]:
    """Return the segments of a window that begins at `start_s` and is `length_s` long; empty ones are left out.

    None begins before `after_s`, where the one before ends; nor before the end of the one that it follows.
    """
    text = vocabulary.text([number for number in heard.ids if not vocabulary.is_time(number)])
    ratio = compression_ratio(text)
    found = []
    for piece in _pieces(heard.ids, vocabulary, length_s):
        ids = heard.ids[piece.first : piece.after]
        said = vocabulary.text(ids)
        if not said.strip():
            continue
        times = None if heard.times is None else heard.times[piece.first : piece.after + 1]
        start, end = (max(after_s, round(start_s + time_s, 3)) for time_s in (piece.start, piece.end))
        found.append(
            Segment(
                start=start,
                end=end,
                text=said,
                ids=ids,
                logprobs=heard.logprobs[piece.first : piece.after],
                window_start=start_s,
                avg_logprob=heard.avg_logprob,
                temperature=heard.temperature,
                compression_ratio=ratio,
                no_speech_prob=heard.no_speech_prob,
                words=() if times is None else words_of(ids, times, start_s, (start, end), vocabulary),
            )
        )
    return tuple(found)


def _pieces(ids: Sequence[int], vocabulary: TranscriptVocabulary, length_s: float) -> list[_Piece]:
    pieces: list[_Piece] = []
    start, first = 0.0, 0
    for index, number in enumerate(ids):
        if vocabulary.is_time(number):
            time_s = max(start, min(vocabulary.seconds(number), length_s))
            if index > first:
                pieces.append(_Piece(start, time_s, first, index))
            start, first = time_s, index + 1
    if len(ids) > first:
        pieces.append(_Piece(start, max(start, length_s), first, len(ids)))
    return pieces


def compression_ratio(text: str) -> float:
    """Return how well a text can be compressed, as Whisper counts it: high where it repeats itself."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0
