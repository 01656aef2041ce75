import json
import shutil
from pathlib import Path

import pytest

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.whisper_architecture import read_whisper_architecture
from conch_runtime_cpu.speech.vocabulary import SpeechVocabulary, check_spectrogram, read_speech_vocabulary
from testkit.models.speech_golden import FOLDER, SpeechTokenizer

FILES = ("config.json", "generation_config.json", "preprocessor_config.json", "tokenizer.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        shutil.copy(FOLDER / name, tmp_path / name)
    return tmp_path


def _change(path: Path, **fields: object) -> None:
    config = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))


def _read(folder: Path) -> SpeechVocabulary:
    architecture = read_whisper_architecture(folder)
    check_spectrogram(folder, architecture)
    return read_speech_vocabulary(folder, architecture)


def test_every_id_is_that_of_the_folder(folder: Path) -> None:
    vocabulary, words = _read(folder), SpeechTokenizer()
    assert words.special("<|startoftranscript|>", "<|notimestamps|>", "<|nospeech|>", "<|0.00|>") == [
        vocabulary.start_id,
        vocabulary.no_times_id,
        vocabulary.no_speech_id,
        vocabulary.first_time_id,
    ]
    assert vocabulary.ending_ids == tuple(words.special("<|endoftext|>"))
    assert set(words.special("<|en|>", "<|zh|>", "<|de|>")) <= vocabulary.languages
    assert vocabulary.suppressed_first == vocabulary.ending_ids
    generation = json.loads((folder / "generation_config.json").read_text())
    assert [list(head) for head in vocabulary.alignment_heads] == generation["alignment_heads"]


def test_what_a_folder_leaves_out_is_not_assumed(folder: Path) -> None:
    _change(
        folder / "generation_config.json",
        alignment_heads=None,
        begin_suppress_tokens=None,
        lang_to_id=None,
        max_initial_timestamp_index=None,
        no_timestamps_token_id=None,
    )
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["added_tokens"] = [each for each in tokenizer["added_tokens"] if each["content"] != "<|nospeech|>"]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    vocabulary = _read(folder)
    assert (vocabulary.alignment_heads, vocabulary.suppressed_first, vocabulary.languages) == ((), (), frozenset())
    assert (vocabulary.latest_first_time, vocabulary.no_speech_id) == (None, None)
    assert [vocabulary.no_times_id] == SpeechTokenizer().special("<|notimestamps|>")


def test_an_older_folder_has_its_ids_in_config_json(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    assert _read(folder).suppressed_first == tuple(SpeechTokenizer().special("<|endoftext|>"))


def test_a_newer_folder_has_its_spectrogram_in_processor_config(folder: Path) -> None:
    path = folder / "preprocessor_config.json"
    (folder / "processor_config.json").write_text(json.dumps({"feature_extractor": json.loads(path.read_text())}))
    path.unlink()
    assert _read(folder).size == json.loads((folder / "config.json").read_text())["vocab_size"]


@pytest.mark.parametrize(
    ("file", "fields", "named"),
    [
        ("generation_config.json", {"decoder_start_token_id": None}, "decoder_start_token_id"),
        ("generation_config.json", {"eos_token_id": [99_999]}, "eos_token_id"),
        ("generation_config.json", {"suppress_tokens": "all"}, "suppress_tokens"),
        ("generation_config.json", {"lang_to_id": [1]}, "lang_to_id"),
        ("generation_config.json", {"lang_to_id": {"<|en|>": -1}}, "lang_to_id"),
        ("generation_config.json", {"alignment_heads": [[9, 0]]}, "alignment_heads"),
        ("generation_config.json", {"alignment_heads": [3]}, "alignment_heads"),
        ("generation_config.json", {"max_initial_timestamp_index": "late"}, "max_initial_timestamp_index"),
        ("generation_config.json", {"no_timestamps_token_id": 99_999}, "no_timestamps_token_id"),
        ("preprocessor_config.json", {"feature_size": 128}, "feature_size"),
        ("preprocessor_config.json", {"sampling_rate": 8000}, "sampling_rate"),
        ("preprocessor_config.json", {"chunk_length": 10}, "chunk_length"),
        ("preprocessor_config.json", {"dither": 0.1}, "dither"),
        ("preprocessor_config.json", {"do_normalize": True}, "do_normalize"),
        ("config.json", {"max_source_positions": 750}, "max_source_positions"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_by_name(
    folder: Path, file: str, fields: dict[str, object], named: str
) -> None:
    _change(folder / file, **fields)
    with pytest.raises(UnusableModel, match=rf"{file}: {named}"):
        _read(folder)


def test_a_vocabulary_without_times_is_refused(folder: Path) -> None:
    last = json.loads((folder / "config.json").read_text())["vocab_size"] - 1
    _change(folder / "generation_config.json", no_timestamps_token_id=last)
    with pytest.raises(UnusableModel, match="no id of a time follows"):
        _read(folder)


@pytest.mark.parametrize("name", FILES[2:])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(UnusableModel, match=r"processor_config\.json|tokenizer\.json"):
        _read(folder)
