"""A real Whisper tokenizer: texts to ids and back."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from conch_contracts.dialects.speech import START, TRANSCRIBE
from conch_kit.bundles.tokenizer_cache import TokenizerUnreadable
from conch_speech_worker.vocabulary import TranscriptVocabulary

FOLDER = Path(__file__).parents[3] / "examples" / "tiny-whisper"
WHISPER = TranscriptVocabulary.from_json((FOLDER / "tokenizer.json").read_bytes())


@pytest.mark.parametrize("text", [" turn on the light", "打开灯", " naïve  café\n", " one, two; three!", " 🎧"])
def test_the_ids_of_a_text_are_that_text(text):
    ids = WHISPER.ids(text)
    assert WHISPER.text(ids) == text
    assert not any(WHISPER.is_time(number) for number in ids)


def test_special_tokens_are_written_as_the_model_knows_them():
    said = json.loads((FOLDER / "generation_config.json").read_text())
    ids = (said["decoder_start_token_id"], said["lang_to_id"]["<|zh|>"], said["task_to_id"]["transcribe"])
    assert WHISPER.marks(ids) == f"{START}<|zh|>{TRANSCRIBE}"


def test_a_language_that_only_one_model_knows_is_one_of_its_languages():
    added = json.loads((FOLDER / "tokenizer.json").read_text())
    number = max(token["id"] for token in added["added_tokens"]) + 1
    added["added_tokens"].append({**added["added_tokens"][-1], "content": "<|gsw|>", "id": number})
    vocabulary = TranscriptVocabulary.from_json(json.dumps(added).encode())
    assert (vocabulary.languages["gsw"], vocabulary.language_of(number)) == (number, "gsw")


@pytest.mark.parametrize("data", [b"{}", b"\xff", Tokenizer(WordLevel({"a": 0}, unk_token="a")).to_str().encode()])
def test_a_tokenizer_that_is_none_of_a_whisper_model_is_refused(data):
    with pytest.raises(TokenizerUnreadable, match=r"cannot be read|has no token"):
        TranscriptVocabulary.from_json(data)
