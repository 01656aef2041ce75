"""Reads what a folder says about a model of speech: config.json and generation_config.json of Whisper models.

Blocks on the disk, like `reader`, which calls it.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from conch_contracts.conditions import Reason
from conch_operator.model_folder.errors import SourceError
from conch_operator.model_folder.json_files import Json, read_object
from conch_operator.state import SpeechFacts

_WHISPER = "whisper"
_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")
_TURBO = (32, 4)
"""Layers of encoder and decoder of models that were made faster, and have lost translation on the way."""


def read_speech(folder: Path, config: Json) -> SpeechFacts:
    """Return what the folder says; raises SourceError where it is not that of a Whisper model."""
    if (found := config.get("model_type")) != _WHISPER:
        message = (
            f"{folder}/config.json has the model_type {found}; kind Transcription serves models of the type whisper. "
            "Name the folder of one, or another kind."
        )
        raise SourceError(Reason.FILES_INVALID, message)
    path = folder / "generation_config.json"
    said = read_object(path)
    if said is None:
        raise SourceError(Reason.FILES_MISSING, f"{folder} has no generation_config.json. Put the model's there.")
    start = _id(path, "decoder_start_token_id", said.get("decoder_start_token_id"))
    languages, tasks = _named(path, said, "lang_to_id"), _named(path, said, "task_to_id")
    codes = {match[1]: number for name, number in languages.items() if (match := _LANGUAGE.fullmatch(name))}
    word_times, multilingual = bool(said.get("alignment_heads")), said.get("is_multilingual")
    if not codes and multilingual is True:
        raise SourceError(Reason.FILES_INVALID, f"{path} says is_multilingual and has no lang_to_id.")
    if not codes or multilingual is False:
        return SpeechFacts(word_times=word_times, prompt_ids=(start,))
    if "transcribe" not in tasks:
        raise SourceError(Reason.FILES_INVALID, f"{path} has languages and no task_to_id with transcribe.")
    turbo = (config.get("encoder_layers"), config.get("decoder_layers")) == _TURBO
    return SpeechFacts(
        languages=tuple(sorted(codes)),
        translates="translate" in tasks and not turbo,
        word_times=word_times,
        prompt_ids=(start, next(iter(codes.values())), tasks["transcribe"]),
    )


def no_speech(folder: Path, config: Json) -> SpeechFacts:
    """Return what a model of another kind has of speech: nothing; raises SourceError for a Whisper model."""
    if config.get("model_type") == _WHISPER:
        message = f"{folder}/config.json is that of a Whisper model. Set spec.kind to Transcription."
        raise SourceError(Reason.FILES_INVALID, message)
    return SpeechFacts()


def _named(path: Path, said: Json, field: str) -> Mapping[str, int]:
    value = said.get(field) or {}
    if not isinstance(value, dict):
        raise SourceError(Reason.FILES_INVALID, f"{path} has a {field} that does not hold ids by name.")
    return {name: _id(path, f"{field} {name}", number) for name, number in value.items()}


def _id(path: Path, field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SourceError(Reason.FILES_INVALID, f"{path}: {field} must be an id, found {value!r}.")
    return value
