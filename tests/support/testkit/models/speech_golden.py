"""The reference outputs of tiny-whisper, as typed items, and the ids that its folder names."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import soundfile
from tokenizers import Tokenizer

from conch_contracts.dialects import speech as dialect

FOLDER = Path(__file__).parents[4] / "examples" / "tiny-whisper"


@dataclass(frozen=True, slots=True)
class SpokenItem:
    """One file with what the reference implementation made of it, greedily."""

    file: str
    pcm: bytes
    """16-bit samples at 16 kHz."""
    language: str
    features: dict[str, Any]
    """What is known of its spectrogram."""
    encoded_mean: float
    """The mean size of the encoder's last hidden state."""
    transcribed: tuple[int, ...]
    """Prompt, answer and ending id."""
    translated: tuple[int, ...] | None
    forced_prompt: tuple[int, ...]
    forced: tuple[int, ...]
    forced_logprobs: tuple[float, ...]
    timed: tuple[int, ...]
    """Prompt, answer with times, and ending id."""
    segments: tuple[tuple[float, float, str], ...]
    """Start, end and text of each; none where nobody speaks."""


@dataclass(frozen=True, slots=True)
class SpeechGolden:
    """All items, and how far a log probability may be off."""

    items: tuple[SpokenItem, ...]
    tolerance_logprob: float


class SpeechTokenizer:
    """Ids of texts and of what is more than text."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))

    def special(self, *tokens: str) -> list[int]:
        """Return the ids of special tokens."""
        ids = {token: self._tokenizer.token_to_id(token) for token in tokens}
        assert None not in ids.values(), ids
        return [ids[token] or 0 for token in tokens]

    def prompt(self, language: str | None, task: str = dialect.TRANSCRIBE, *, times: bool = False) -> list[int]:
        """Return a prompt; a language that is None is to be found."""
        found = self.special(dialect.language_token(language)) if language else [dialect.FIND_LANGUAGE]
        end = [] if times else self.special(dialect.NO_TIMES)
        return [*self.special(dialect.START), *found, *self.special(task), *end]

    def segments(self, ids: tuple[int, ...]) -> tuple[tuple[float, float, str], ...]:
        """Return the segments of an answer whose every segment begins and ends with a time."""
        (first,) = [token + 1 for token in self.special(dialect.NO_TIMES)]
        found, start, text = [], None, []
        for token in ids:
            if token < first:
                text.append(token)
            elif start is None:
                start = (token - first) * dialect.SECONDS_PER_TIME_ID
            else:
                end = (token - first) * dialect.SECONDS_PER_TIME_ID
                found.append((start, end, self._tokenizer.decode(text).strip()))
                start, text = None, []
        return tuple(found)


def load_speech_golden() -> SpeechGolden:
    """Read golden.json of the example model."""
    raw = json.loads((FOLDER / "golden.json").read_text())
    return SpeechGolden(tuple(_item(item) for item in raw["items"]), raw["tolerance_logprob"])


def _item(item: dict[str, Any]) -> SpokenItem:
    return SpokenItem(
        file=item["file"],
        pcm=_samples(FOLDER / item["file"]),
        language=item["language"],
        features=item["features"],
        encoded_mean=item["encoder_out_mean_abs"],
        transcribed=tuple(item["transcribe"]["generated_ids"]),
        translated=tuple(item["translate"]["generated_ids"]) if "translate" in item else None,
        forced_prompt=tuple(item["forced"]["prompt_ids"]),
        forced=tuple(item["forced"]["token_ids"]),
        forced_logprobs=tuple(item["forced"]["logprobs"]),
        timed=tuple(item["timed"]["generated_ids"]),
        segments=tuple((each["start"], each["end"], each["text"]) for each in item["segments"]),
    )


def _samples(path: Path) -> bytes:
    samples, rate = soundfile.read(path, dtype="int16")
    assert (samples.ndim, rate) == (1, dialect.SAMPLE_RATE)
    pcm: bytes = samples.astype("<i2").tobytes()
    return pcm
