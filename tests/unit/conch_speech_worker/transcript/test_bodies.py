import json
from dataclasses import replace

import pytest
from tokenizers import Tokenizer

from conch_contracts.messages.transcription import SpeechTask, SpeechUsage, TranscriptFormat
from conch_contracts.records import Profile
from conch_speech_worker.transcript.bodies import body, logprobs_of
from conch_speech_worker.transcript.segments import Segment
from conch_speech_worker.transcript.words import Word
from conch_speech_worker.vocabulary import TranscriptVocabulary
from testkit.builders.transcriptions import VOCABULARY, transcribe_request
from testkit.processes.conch_up import ROOT

SAID = (Segment(0.0, 1.5, " w01", (1,), (-0.5,), 0.0, -0.5, 0.2, 1.1, 0.3, (Word("w01", 0.0, 1.5),)),)
USAGE = SpeechUsage(audio_s=1.6, prompt_tokens=3, completion_tokens=2, audio_tokens=80)


@pytest.mark.parametrize(
    ("changes", "language"),
    [
        ({}, "german"),
        ({"profile": Profile.VLLM}, "de"),
        ({"task": SpeechTask.TRANSLATE}, "english"),
    ],
)
def test_verbose_json_tells_the_language(changes, language):
    request = transcribe_request(format=TranscriptFormat.VERBOSE_JSON, words=True, segments=True, **changes)
    answer = json.loads(body(request, SAID, "de", USAGE, VOCABULARY))
    assert (answer["language"], answer["duration"]) == (language, 1.6)
    assert answer["words"] == [{"word": "w01", "start": 0.0, "end": 1.5}]
    (segment,) = answer["segments"]
    assert (segment["tokens"], segment["temperature"], segment["no_speech_prob"]) == ([1], 0.2, 0.3)
    assert answer["usage"] == {"type": "duration", "seconds": 2}


@pytest.mark.parametrize(
    ("changes", "language"),
    [({}, "english"), ({"profile": Profile.VLLM}, "en"), ({"languages": ("de", "fr")}, "german")],
)
def test_a_file_in_which_nothing_is_said_is_in_a_language_all_the_same(changes, language):
    request = transcribe_request(format=TranscriptFormat.VERBOSE_JSON, language=None, **changes)
    assert json.loads(body(request, (), None, USAGE, VOCABULARY))["language"] == language


def test_what_was_not_asked_for_is_left_out():
    request = transcribe_request(format=TranscriptFormat.VERBOSE_JSON, words=True)
    assert "segments" not in json.loads(body(request, SAID, "de", USAGE, VOCABULARY))


def test_json_tells_log_probabilities_where_asked():
    request = transcribe_request(logprobs=True)
    answer = json.loads(body(request, SAID, "de", USAGE, VOCABULARY))
    assert answer["logprobs"] == [{"token": " w01", "bytes": list(b" w01"), "logprob": -0.5}]
    assert answer["usage"] == {"type": "duration", "seconds": 2}


def test_a_character_of_several_tokens_is_told_byte_by_byte():
    tokenizer = Tokenizer.from_file(str(ROOT / "examples" / "tiny-whisper" / "tokenizer.json"))
    ids = tuple(tokenizer.encode(" two \u767e", add_special_tokens=False).ids)
    segment = replace(SAID[0], ids=ids, logprobs=(-0.5,) * len(ids))
    told = logprobs_of(segment, TranscriptVocabulary(tokenizer))
    assert [one["token"] for one in told] == [" two", " ", "\\xe7", "\\x99", "\\xbe"]
    assert bytes(byte for one in told for byte in one["bytes"]).decode() == " two \u767e"
