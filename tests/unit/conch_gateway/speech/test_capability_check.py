"""What a model of speech cannot obey is refused by the parameter's name."""

import pytest

from conch_contracts.capabilities import Level
from conch_contracts.openai.audio import SpeechFields, TranscriptionRequest, TranslationRequest
from conch_contracts.records import Dialect, SpeechProfile
from conch_contracts.speech_capabilities import SPEECH_CAPABILITIES, SpeechFeature
from conch_gateway.speech.capability_check import check
from conch_kit.errors import InvalidRequest
from testkit.gateway.speech import WHISPER, speech_route

BLS = speech_route(dialect=Dialect.WHISPER_BLS)
REFUSED = {
    "languages": ["de"],
    "prompt": "Conch",
    "temperature": 0.2,
    "top_p": 0.9,
    "top_k": 5,
    "min_p": 0.1,
    "seed": 0,
    "repetition_penalty": 1.1,
    "frequency_penalty": 0.1,
    "presence_penalty": -0.1,
    "max_completion_tokens": 100,
    "include": ["logprobs"],
}
HARMLESS = {
    "languages": [],
    "prompt": "",
    "temperature": 0,
    "top_p": 1,
    "top_k": -1,
    "min_p": 0,
    "seed": None,
    "repetition_penalty": 1,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "max_completion_tokens": None,
    "include": [],
}


@pytest.mark.parametrize("param", REFUSED)
def test_what_the_dialect_lacks_is_named_unless_it_asks_for_nothing(param: str) -> None:
    kind = TranscriptionRequest
    with pytest.raises(InvalidRequest, match=rf"\(whisper_bls\) cannot obey '{param}': ") as caught:
        check(kind(language="en", **{param: REFUSED[param]}), BLS)
    assert (caught.value.param, caught.value.code) == (param, "unsupported_parameter")
    check(kind(language="en", **{param: HARMLESS[param]}), BLS)
    check(kind(**{param: REFUSED[param]}), speech_route())


def test_every_parameter_of_the_table_is_tried() -> None:
    lacked = {
        feature
        for table in SPEECH_CAPABILITIES.values()
        for feature in SpeechFeature
        if table[feature].level is Level.NO
    }
    named = {param for feature in lacked for param in feature.params}
    assert named - {"timestamp_granularities"} == set(REFUSED)
    assert {dialect for dialect in Dialect if dialect.transcribes} == set(SPEECH_CAPABILITIES)


@pytest.mark.parametrize("request_type", [TranscriptionRequest, TranslationRequest])
def test_a_language_must_be_named_where_none_is_found(request_type: type[SpeechFields]) -> None:
    with pytest.raises(InvalidRequest, match="Missing required parameter: 'language'") as caught:
        check(request_type(), BLS)
    assert (caught.value.param, caught.value.code) == ("language", "missing_required_parameter")
    check(request_type(language="de"), BLS)
    check(request_type(), speech_route())
    check(request_type(), speech_route(SpeechProfile(), dialect=Dialect.WHISPER_BLS))
    assert WHISPER.languages
