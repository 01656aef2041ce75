"""How much of windows that training never showed transformers' `generate` writes down rightly."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, WhisperForConditionalGeneration

from models.tiny_whisper.windows import Segment, Studio

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
        self._windows = {kind: [studio.draw(kind.utterances, late=kind.late) for _ in range(count)] for kind in _KINDS}
        self._spectra = {
            kind: np.stack([studio.whole(each).T for each in drawn]) for kind, drawn in self._windows.items()
        }

    def rates(self, network: WhisperForConditionalGeneration) -> dict[str, dict[str, float]]:
        """Return the shares of windows with the right segments; of texts alone; without times; with their language."""
        return {kind.name: self._rates_of(network, kind) for kind in _KINDS}

    def _rates_of(self, network: WhisperForConditionalGeneration, kind: _Kind) -> dict[str, float]:
        right: dict[str, list[bool]] = {"segments": [], "texts": [], "without times": [], "language": []}
        for first in range(0, len(self._windows[kind]), _AT_ONCE):
            windows = self._windows[kind][first : first + _AT_ONCE]
            features = torch.from_numpy(self._spectra[kind][first : first + _AT_ONCE])
            languages = [each.language for each in windows]
            heard = self.segments(network, features, languages)
            plain = network.generate(features, language=languages, task="transcribe")
            found = network.detect_language(features)
            for window, segments, ids, language in zip(windows, heard, plain, found, strict=True):
                texts = [each.phrase.text for each in window.segments]
                right["segments"].append(_alike(segments, window.segments))
                right["texts"].append([text for _, _, text in segments] == texts)
                right["without times"].append(self._text(ids) == " ".join(texts))
                right["language"].append(
                    self._tokenizer.convert_ids_to_tokens(int(language)) == f"<|{window.language}|>"
                )
        return {name: round(sum(each) / len(each), 3) for name, each in right.items()}

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
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, decode_with_timestamps=False)
        return text.strip()


def _alike(heard: Sequence[tuple[float, float, str]], expected: Sequence[Segment]) -> bool:
    return len(heard) == len(expected) and all(
        text == one.phrase.text and abs(start - one.start) < _NEAR_S and abs(end - one.end) < _NEAR_S
        for (start, end, text), one in zip(heard, expected, strict=True)
    )
