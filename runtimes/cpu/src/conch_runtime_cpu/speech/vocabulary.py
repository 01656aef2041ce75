"""Reads what a Whisper folder says about its ids and its spectrogram; no id is ever assumed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conch_contracts.dialects.speech import NO_SPEECH, NO_TIMES, SAMPLE_RATE, WINDOW_SAMPLES
from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.config_json import read_config, read_json
from conch_runtime_cpu.graphs.whisper_architecture import WhisperArchitecture
from conch_runtime_cpu.speech.spectrogram import FRAME, HOP

_GENERATION, _TOKENIZER = "generation_config.json", "tokenizer.json"
_PREPROCESSOR, _PROCESSOR = "preprocessor_config.json", "processor_config.json"


@dataclass(frozen=True, slots=True)
class SpeechVocabulary:
    """The ids that mean more than text."""

    size: int
    start_id: int
    ending_ids: tuple[int, ...]
    """The first of them is also where the ids of text end."""
    languages: frozenset[int]
    """Empty where the model knows one language only."""
    no_times_id: int
    no_speech_id: int | None
    suppressed: tuple[int, ...] = ()
    """Never chosen."""
    suppressed_first: tuple[int, ...] = ()
    """Not chosen as the first id of an answer."""
    latest_first_time: int | None = None
    """How many ids behind that of 0 s the first time of an answer may be; None: any."""
    alignment_heads: tuple[tuple[int, int], ...] = ()
    """The layers of the decoder, each with one of its heads, whose attention follows what is said."""

    @property
    def first_time_id(self) -> int:
        """Return the id of 0 s."""
        return self.no_times_id + 1


def read_speech_vocabulary(folder: Path, architecture: WhisperArchitecture) -> SpeechVocabulary:
    """Read a Whisper folder; raises UnusableModel, naming the file and the field."""
    path = folder / _GENERATION
    config = read_json(path) if path.is_file() else read_config(folder)
    ids = _Ids(path.name if path.is_file() else "config.json", config, architecture.vocabulary)
    special = _special_ids(folder)
    no_times = ids.one("no_timestamps_token_id", special.get(NO_TIMES))
    if no_times + 1 >= architecture.vocabulary:
        raise UnusableModel(f"{ids.file}: no id of a time follows no_timestamps_token_id ({no_times}).")
    return SpeechVocabulary(
        size=architecture.vocabulary,
        start_id=ids.one("decoder_start_token_id"),
        ending_ids=ids.some("eos_token_id"),
        languages=ids.named("lang_to_id"),
        no_times_id=no_times,
        no_speech_id=next((special[name] for name in NO_SPEECH if name in special), None),
        suppressed=ids.several("suppress_tokens"),
        suppressed_first=ids.several("begin_suppress_tokens"),
        latest_first_time=ids.count("max_initial_timestamp_index"),
        alignment_heads=_alignment_heads(ids.file, config, architecture),
    )


def check_spectrogram(folder: Path, architecture: WhisperArchitecture) -> None:
    """Raise UnusableModel where a folder wants other spectrograms than `spectrogram` makes."""
    path = folder / _PREPROCESSOR
    if path.is_file():
        config = read_json(path)
    else:
        path = folder / _PROCESSOR
        nested = read_json(path).get("feature_extractor")
        config = nested if isinstance(nested, dict) else {}
    wanted = {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": architecture.mels,
        "sampling_rate": SAMPLE_RATE,
        "n_fft": FRAME,
        "hop_length": HOP,
        "chunk_length": WINDOW_SAMPLES // SAMPLE_RATE,
    }
    for field, value in wanted.items():
        if config.get(field) != value:
            raise UnusableModel(f"{path.name}: {field} must be {value}; found {config.get(field)!r}.")
    for field in ("dither", "do_normalize", "padding_value"):
        if config.get(field):
            raise UnusableModel(f"{path.name}: {field} is not supported; found {config[field]!r}.")
    if architecture.positions * 2 * HOP != WINDOW_SAMPLES:
        expected = WINDOW_SAMPLES // HOP // 2
        raise UnusableModel(f"config.json: max_source_positions must be {expected}; found {architecture.positions}.")


class _Ids:
    """The fields of one file that hold ids."""

    def __init__(self, file: str, config: Mapping[str, object], size: int) -> None:
        self.file = file
        self._config = config
        self._size = size

    def one(self, field: str, default: int | None = None) -> int:
        value = self._config.get(field)
        return self._checked(field, default if value is None else value)

    def some(self, field: str) -> tuple[int, ...]:
        """Return one id or a list of them, at least one."""
        value = self._config.get(field)
        return (
            tuple(self._checked(field, each) for each in value)
            if isinstance(value, list) and value
            else (self._checked(field, value),)
        )

    def several(self, field: str) -> tuple[int, ...]:
        value = self._config.get(field) or []
        if not isinstance(value, list):
            raise UnusableModel(f"{self.file}: {field} must be a list of ids; found {value!r}.")
        return tuple(self._checked(field, each) for each in value)

    def named(self, field: str) -> frozenset[int]:
        value = self._config.get(field) or {}
        if not isinstance(value, dict):
            raise UnusableModel(f"{self.file}: {field} must be ids by name; found {value!r}.")
        return frozenset(self._checked(field, each) for each in value.values())

    def count(self, field: str) -> int | None:
        value = self._config.get(field)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise UnusableModel(f"{self.file}: {field} must be a whole number; found {value!r}.")
        return value

    def _checked(self, field: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < self._size:
            raise UnusableModel(f"{self.file}: {field} must be an id below {self._size}; found {value!r}.")
        return value


def _special_ids(folder: Path) -> dict[str, int]:
    added = read_json(folder / _TOKENIZER).get("added_tokens")
    tokens = added if isinstance(added, list) else []
    return {
        each["content"]: each["id"]
        for each in tokens
        if isinstance(each, dict) and isinstance(each.get("content"), str) and isinstance(each.get("id"), int)
    }


def _alignment_heads(
    file: str, config: Mapping[str, object], architecture: WhisperArchitecture
) -> tuple[tuple[int, int], ...]:
    value = config.get("alignment_heads") or []
    heads = [tuple(each) if isinstance(each, list) else () for each in value] if isinstance(value, list) else [()]
    found = []
    for head in heads:
        match head:
            case (int(layer), int(number)) if (
                0 <= layer < architecture.decoder_layers and 0 <= number < architecture.decoder_heads
            ):
                found.append((layer, number))
            case _:
                raise UnusableModel(f"{file}: alignment_heads must be pairs of a layer and a head; found {value!r}.")
    return tuple(found)
