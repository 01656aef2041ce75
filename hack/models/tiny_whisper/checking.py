"""How much of windows that training never showed transformers' `generate` writes down rightly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer, WhisperForConditionalGeneration

from models.tiny_whisper.windows import Segment, Studio, Window
from models.tiny_whisper.writing import IDS_OF_S

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
        """Return the shares of windows with the right segments, and with the right texts whatever their times."""
        return {kind.name: self._rates_of(network, kind) for kind in _KINDS}

    def _rates_of(self, network: WhisperForConditionalGeneration, kind: _Kind) -> dict[str, float]:
        right = {"segments": 0, "texts": 0}
        for windows, features in self._parts(kind):
            heard = self._segments(network, features, [each.language for each in windows])
            for window, segments in zip(windows, heard, strict=True):
                right["segments"] += _alike(segments, window.segments)
                right["texts"] += [text for _, _, text in segments] == [each.phrase.text for each in window.segments]
        return {name: round(each / len(self._windows[kind]), 3) for name, each in right.items()}

    def _parts(self, kind: _Kind) -> Iterator[tuple[list[Window], torch.Tensor]]:
        windows = self._windows[kind]
        for first in range(0, len(windows), _AT_ONCE):
            part = windows[first : first + _AT_ONCE]
            yield part, torch.from_numpy(np.stack([self._studio.whole(each).T for each in part]))

    def _segments(
        self, network: WhisperForConditionalGeneration, features: torch.Tensor, languages: Sequence[str]
    ) -> list[list[tuple[float, float, str]]]:
        made = network.generate(
            features, language=list(languages), task="transcribe", return_timestamps=True, return_segments=True
        )
        return [heard_segments(row, self._tokenizer) for row in made["segments"]]


def heard_segments(segments: Sequence[dict[str, Any]], tokenizer: Any) -> list[tuple[float, float, str]]:
    """Return start, end and text of what `generate` found in a window; what has no text is left out.

    Where it found one segment, it gives the beginning of the window as its start, whatever the first id says.
    """
    first = tokenizer.convert_tokens_to_ids("<|0.00|>")
    found = []
    for each in segments:
        ids, start = each["tokens"].tolist(), float(each["start"])
        if len(segments) == 1 and ids and ids[0] >= first:
            start += (ids[0] - first) / IDS_OF_S
        text = str(tokenizer.decode(ids, skip_special_tokens=True)).strip()
        if text:
            found.append((round(start, 2), round(float(each["end"]), 2), text))
    return found


def _alike(heard: Sequence[tuple[float, float, str]], expected: Sequence[Segment]) -> bool:
    return len(heard) == len(expected) and all(
        text == one.phrase.text and abs(start - one.start) < _NEAR_S and abs(end - one.end) < _NEAR_S
        for (start, end, text), one in zip(heard, expected, strict=True)
    )
