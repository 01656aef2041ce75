"""What the folder of a Whisper model says."""

import json
from pathlib import Path
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_operator.model_folder.errors import SourceError
from conch_operator.model_folder.reader import read_source
from conch_operator.model_folder.speech_files import read_speech
from conch_operator.state import DesiredModel, SourceFacts, SourceFault, SpeechFacts
from testkit.builders.model_deployments import model_deployment

EXAMPLES = Path(__file__).parents[4] / "examples"
WHISPER = {"model_type": "whisper", "encoder_layers": 6, "decoder_layers": 6}
SAID = {
    "decoder_start_token_id": 10,
    "is_multilingual": True,
    "lang_to_id": {"<|zh|>": 12, "<|en|>": 11, "<|yue|>": 13},
    "task_to_id": {"transcribe": 21, "translate": 20},
    "alignment_heads": [[1, 0]],
}


def read(folder: Path, said: dict[str, Any] | None = None, **config: Any) -> SpeechFacts:
    if said is not None:
        (folder / "generation_config.json").write_text(json.dumps(said))
    return read_speech(folder, WHISPER | config)


def test_languages_tasks_and_heads_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, SAID) == SpeechFacts(
        ("en", "yue", "zh"), translates=True, word_times=True, prompt_ids=(10, 12, 21)
    )


@pytest.mark.parametrize(
    ("said", "config", "translates"),
    [
        ({}, {}, True),
        ({}, {"encoder_layers": 32, "decoder_layers": 32}, True),
        ({}, {"encoder_layers": 32, "decoder_layers": 4}, False),
        ({"task_to_id": {"transcribe": 21}}, {}, False),
        ({"is_multilingual": False}, {}, False),
    ],
)
def test_who_translates(tmp_path: Path, said: dict[str, Any], config: dict[str, Any], translates: bool) -> None:
    assert read(tmp_path, SAID | said, **config).translates is translates


def test_a_model_of_one_language_is_given_its_first_id_alone(tmp_path: Path) -> None:
    assert read(tmp_path, {"decoder_start_token_id": 10}) == SpeechFacts(prompt_ids=(10,))


@pytest.mark.parametrize(
    ("said", "config", "reason", "says"),
    [
        (SAID, {"model_type": "llama"}, Reason.FILES_INVALID, "has the model_type llama"),
        (None, {}, Reason.FILES_MISSING, "has no generation_config.json"),
        (SAID | {"lang_to_id": {}}, {}, Reason.FILES_INVALID, "says is_multilingual and has no lang_to_id"),
        (SAID | {"lang_to_id": [1]}, {}, Reason.FILES_INVALID, "lang_to_id that does not hold ids by name"),
        (SAID | {"task_to_id": {}}, {}, Reason.FILES_INVALID, "no task_to_id with transcribe"),
        (SAID | {"decoder_start_token_id": "a"}, {}, Reason.FILES_INVALID, "decoder_start_token_id must be an id"),
        (SAID | {"lang_to_id": {"<|en|>": -1}}, {}, Reason.FILES_INVALID, "lang_to_id <|en|> must be an id, found -1"),
    ],
)
def test_a_folder_that_does_not_say_enough(
    tmp_path: Path, said: dict[str, Any] | None, config: dict[str, Any], reason: Reason, says: str
) -> None:
    with pytest.raises(SourceError, match=says.replace("|", r"\|")) as caught:
        read(tmp_path, said, **config)
    assert caught.value.reason is reason


def test_the_example_is_read_as_a_whole() -> None:
    deployment = model_deployment(kind="Transcription", source={"path": "tiny-whisper"})
    facts = read_source(DesiredModel(deployment, EXAMPLES, 1))
    assert isinstance(facts, SourceFacts)
    assert (facts.max_position_embeddings, facts.vocab_size) == (64, 1937)
    assert facts.speech.languages == ("de", "en", "es", "fr", "ja", "ko", "ru", "zh")
    assert facts.speech.translates
    assert facts.speech.word_times
    assert facts.speech.prompt_ids[0] == 421


@pytest.mark.parametrize("kind", ["LLM", "Embedding"])
def test_no_other_kind_takes_the_folder_of_a_model_of_speech(kind: str) -> None:
    found = read_source(DesiredModel(model_deployment(kind=kind, source={"path": "tiny-whisper"}), EXAMPLES, 1))
    assert isinstance(found, SourceFault)
    assert found.reason is Reason.FILES_INVALID
    assert found.message.endswith("Set spec.kind to Transcription.")
