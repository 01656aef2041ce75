"""How much of windows that training never showed transformers' `generate` writes down rightly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, WhisperForConditionalGeneration

from models.tiny_whisper.windows import Segment, Studio, Window

_NEAR_S = 0.2 + 1e-6
_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class _Kind:
    """Windows that are counted together."""

    name: str
    utterances: int
    late: bool


_KINDS = (
    _Kind("one, at once", 1, late=False),
    _Kind("one, late", 1, late=True),
    _Kind("two, at once", 2, late=False),
    _Kind("two, late", 2, late=True),
    _Kind("three, at once", 3, late=False),
    _Kind("three, late", 3, late=True),
    _Kind("silence", 0, late=False),
)


class Check:
    """Draws windows of every kind once, and has them heard again and again."""

    def __init__(self, studio: Studio, folder: Path, count: int) -> None:
        """`count` windows of each kind, as many in either language as training shows."""
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._studio = studio
        self._windows = {kind: [studio.draw(kind.utterances, late=kind.late) for _ in range(count)] for kind in _KINDS}

    def rates(self, network: WhisperForConditionalGeneration) -> dict[str, dict[str, float]]:
        """Return the shares of windows with the right segments, texts, texts without times, and language."""
        return {
            kind.name: self._shares(kind, self._timed(network, kind) | self._plain(network, kind)) for kind in _KINDS
        }

    def rates_with_times(self, network: WhisperForConditionalGeneration) -> dict[str, dict[str, float]]:
        """Return the shares of windows with the right segments, and texts."""
        return {kind.name: self._shares(kind, self._timed(network, kind)) for kind in _KINDS}

    def _timed(self, network: WhisperForConditionalGeneration, kind: _Kind) -> dict[str, int]:
        right = {"segments": 0, "texts": 0}
        for windows, features in self._parts(kind):
            heard = self.segments(network, features, [each.language for each in windows])
            for window, segments in zip(windows, heard, strict=True):
                right["segments"] += _alike(segments, window.segments)
                right["texts"] += [text for _, _, text in segments] == [each.phrase.text for each in window.segments]
        return right

    def _plain(self, network: WhisperForConditionalGeneration, kind: _Kind) -> dict[str, int]:
        right = {"texts without times": 0, "language": 0}
        for windows, features in self._parts(kind):
            plain = network.generate(features, language=[each.language for each in windows], task="transcribe")
            found = self._tokenizer.convert_ids_to_tokens(network.detect_language(features))
            for window, ids, language in zip(windows, plain, found, strict=True):
                text = " ".join(each.phrase.text for each in window.segments)
                right["texts without times"] += self._text(ids) == text
                right["language"] += language == f"<|{window.language}|>"
        return right if kind.utterances else {"texts without times": right["texts without times"]}

    def _shares(self, kind: _Kind, right: dict[str, int]) -> dict[str, float]:
        return {name: round(each / len(self._windows[kind]), 3) for name, each in right.items()}

    def _parts(self, kind: _Kind) -> Iterator[tuple[list[Window], torch.Tensor]]:
        windows = self._windows[kind]
        for first in range(0, len(windows), _AT_ONCE):
            part = windows[first : first + _AT_ONCE]
            yield part, torch.from_numpy(np.stack([self._studio.whole(each).T for each in part]))

    def segments(
        self, network: WhisperForConditionalGeneration, features: torch.Tensor, languages: Sequence[str]
    ) -> list[list[tuple[float, float, str]]]:
        """Return start, end and text of what is heard in each window; what has no text is left out."""
        made = network.generate(
            features, language=list(languages), task="transcribe", return_timestamps=True, return_segments=True
        )["segments"]
        found = [
            [(float(each["start"]), float(each["end"]), self._text(each["tokens"])) for each in row] for row in made
        ]
        return [[each for each in row if each[2]] for row in found]

    def _text(self, ids: torch.Tensor) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip()


def _alike(heard: Sequence[tuple[float, float, str]], expected: Sequence[Segment]) -> bool:
    return len(heard) == len(expected) and all(
        text == one.phrase.text and abs(start - one.start) < _NEAR_S and abs(end - one.end) < _NEAR_S
        for (start, end, text), one in zip(heard, expected, strict=True)
    )
