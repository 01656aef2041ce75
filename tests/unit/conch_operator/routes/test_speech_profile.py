"""What of a model of speech stands in its route."""

from dataclasses import replace
from typing import Any

import pytest

from conch_contracts.names import ServedName
from conch_contracts.records import Dialect, SpeechProfile
from conch_operator.routes.route import make_route
from conch_operator.routes.speech_profile import speech_profile
from conch_operator.state import SpeechFacts
from testkit.builders.model_deployments import FACTS, desired_model, model_deployment

HEARD = replace(
    FACTS,
    max_position_embeddings=448,
    speech=SpeechFacts(("en", "zh"), translates=True, word_times=True, prompt_ids=(1, 2, 3)),
)


@pytest.mark.parametrize(
    ("said", "translates", "max_audio_s"),
    [
        ({}, True, 7200.0),
        ({"speech": {}}, True, 7200.0),
        ({"speech": {"translation": False, "maxAudio": "30m"}}, False, 1800.0),
    ],
)
def test_the_deployment_has_the_word_where_it_says_something(
    said: dict[str, Any], translates: bool, max_audio_s: float
) -> None:
    found = speech_profile(model_deployment(kind="Transcription", **said).spec, HEARD, Dialect.SPEECH)
    assert (found.translates, found.max_audio_s) == (translates, max_audio_s)
    assert (found.languages, found.word_times, found.prompt_ids) == (("en", "zh"), True, (1, 2, 3))


def test_other_kinds_say_nothing_of_speech() -> None:
    assert speech_profile(model_deployment().spec, HEARD, Dialect.TOKENS) == SpeechProfile()


def test_a_route_of_speech_says_what_its_decoder_takes() -> None:
    route = make_route(desired_model(kind="Transcription"), HEARD, (ServedName("tiny"),))
    assert (route.dialect, route.max_model_len, route.speech.languages) == (Dialect.SPEECH, 448, ("en", "zh"))


@pytest.mark.parametrize(
    ("external", "dialect", "word_times", "window_tokens"),
    [
        ({"dialect": "speech"}, Dialect.SPEECH, True, None),
        ({}, Dialect.SPEECH, True, None),
        ({"dialect": "whisper_bls"}, Dialect.WHISPER_BLS, False, 50),
        ({"dialect": "whisper_bls", "windowTokens": 96}, Dialect.WHISPER_BLS, False, 96),
    ],
)
def test_what_an_engine_elsewhere_cannot_tell_its_route_says(
    external: dict[str, Any], dialect: Dialect, word_times: bool, window_tokens: int | None
) -> None:
    model = desired_model(kind="Transcription", engine={"external": {"grpc": "h:1", **external}})
    found = make_route(model, HEARD, (ServedName("tiny"),))
    assert (found.dialect, found.speech.word_times, found.speech.window_tokens) == (dialect, word_times, window_tokens)
