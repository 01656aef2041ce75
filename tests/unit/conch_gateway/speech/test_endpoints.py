"""What a form asks for, and what it may not ask for."""

import pytest

from conch_contracts.messages.message import from_json
from conch_contracts.messages.tokenization import PrepareRequest
from conch_contracts.messages.transcription import TranscriptFormat
from conch_contracts.records import Dialect, Profile, SpeechProfile
from conch_gateway.http.form_parser import FormField
from conch_gateway.speech.endpoints import TRANSCRIPTIONS, TRANSLATIONS
from conch_kit.errors import InvalidRequest, ModelNotFound
from testkit.gateway.fakes import route, snapshot
from testkit.gateway.speech import speech_route


def resolved(*pairs, endpoint=TRANSCRIPTIONS, known=None, size=1000):
    fields = [FormField(name, text) for name, text in pairs]
    return endpoint.resolve(fields, size, known or snapshot(speech_route(), route()))


def refused(*pairs, **rest):
    with pytest.raises(InvalidRequest) as caught:
        resolved(*pairs, **rest)
    return caught.value.param, caught.value.code


def test_a_form_with_a_model_alone_asks_for_json_from_that_model():
    found = resolved(("model", "whisper-1"))
    assert (found.name, found.format, found.language, found.stream) == ("whisper-1", TranscriptFormat.JSON, None, False)
    assert (found.segments, found.words, found.logprobs, found.preparation) == (False, False, False, None)
    assert (found.file_bytes, found.unknown_fields) == (1000, 0)


def test_without_a_model_the_only_one_of_the_kind_answers():
    assert resolved().name == "ear"
    assert resolved(("model", "")).name == "ear"
    assert resolved(("model", "default")).name == "ear"


def test_without_a_model_and_with_several_one_must_be_named():
    known = snapshot(speech_route(), speech_route(model_id="local/other", served_names=("other",)))
    assert refused(known=known) == ("model", "missing_required_parameter")
    assert refused(("model", ""), known=known) == ("model", "missing_required_parameter")


def test_an_unknown_model_is_not_found_and_one_of_another_kind_does_not_do():
    with pytest.raises(ModelNotFound):
        resolved(("model", "nobody"))
    assert refused(("model", "tiny-chat")) == ("model", "unsupported_model")


VERBOSE = ("response_format", "verbose_json")
WORDS = ("timestamp_granularities[]", "word")
SEGMENTS = ("timestamp_granularities[]", "segment")
STREAM = ("stream", "true")


@pytest.mark.parametrize(
    ("pairs", "segments", "words"),
    [
        ([VERBOSE], True, False),
        ([VERBOSE, SEGMENTS], True, False),
        ([VERBOSE, WORDS], False, True),
        ([VERBOSE, SEGMENTS, WORDS], True, True),
        ([VERBOSE, ("timestamp_granularities[]", "")], True, False),
        ([("response_format", "srt")], False, False),
    ],
)
def test_times_are_told_of_what_is_asked_for(pairs, segments, words):
    found = resolved(*pairs)
    assert (found.segments, found.words) == (segments, words)


@pytest.mark.parametrize("text_format", ["json", "text", "srt", "verbose_json", "vtt"])
@pytest.mark.parametrize("endpoint", [TRANSCRIPTIONS, TRANSLATIONS])
def test_each_format_may_be_asked_of_each_endpoint(endpoint, text_format):
    assert resolved(("response_format", text_format), endpoint=endpoint).format == text_format


@pytest.mark.parametrize("text_format", ["json", "text"])
def test_text_can_be_streamed(text_format):
    assert resolved(STREAM, ("response_format", text_format)).stream


@pytest.mark.parametrize(
    ("pairs", "param", "code"),
    [
        ([("language", "hh")], "language", "invalid_value"),
        ([("language", "english")], "language", "invalid_value"),
        ([("response_format", "xml")], "response_format", "invalid_value"),
        ([("response_format", "diarized_json")], "response_format", "unsupported_parameter"),
        ([("temperature", "1.5")], "temperature", "invalid_value"),
        ([("temperature", "nan")], "temperature", "invalid_value"),
        ([("temperature", "-0.1")], "temperature", "invalid_value"),
        ([("temperature", "true")], "temperature", "invalid_value"),
        ([("temperature", "warm")], "temperature", "invalid_value"),
        ([WORDS], "timestamp_granularities", "invalid_value"),
        ([VERBOSE, ("timestamp_granularities[]", "line")], "timestamp_granularities.0", "invalid_value"),
        ([("include[]", "logprobs"), VERBOSE], "include", "invalid_value"),
        ([("include[]", "logprobs"), ("response_format", "text")], "include", "invalid_value"),
        ([("include[]", "more")], "include.0", "invalid_value"),
        ([STREAM, VERBOSE], "stream", "invalid_value"),
        ([STREAM, ("response_format", "srt")], "stream", "invalid_value"),
        ([STREAM, ("response_format", "vtt")], "stream", "invalid_value"),
        ([("stream", "yes")], "stream", "invalid_value"),
        ([("stream", "1")], "stream", "invalid_value"),
        ([("stream_include_usage", "true")], "stream_include_usage", "invalid_value"),
        ([("stream_continuous_usage_stats", "true")], "stream_continuous_usage_stats", "invalid_value"),
        (
            [STREAM, ("stream_continuous_usage_stats", "true")],
            "stream_continuous_usage_stats",
            "unsupported_parameter",
        ),
        ([("languages[]", "xx")], "languages", "invalid_value"),
        ([("languages[]", "de"), ("language", "de")], "languages", "invalid_value"),
        ([("max_completion_tokens", "0")], "max_completion_tokens", "invalid_value"),
        ([("seed", "1.5")], "seed", "invalid_value"),
        ([("seed", "9" * 19)], "seed", "invalid_value"),
        ([("top_p", "0")], "top_p", "invalid_value"),
        ([("chunking_strategy", "never")], "chunking_strategy", "invalid_value"),
        ([("chunking_strategy[type]", "client_vad")], "chunking_strategy.type", "invalid_value"),
        (
            [("chunking_strategy[type]", "server_vad"), ("chunking_strategy[threshold]", "0.9")],
            "chunking_strategy.threshold",
            "unsupported_parameter",
        ),
        ([("known_speaker_names[]", "Ann")], "known_speaker_names", "unsupported_parameter"),
        ([("known_speaker_references[]", "data:x")], "known_speaker_references", "unsupported_parameter"),
        ([("keywords[]", "Conch")], "keywords", "unsupported_parameter"),
        ([("hotwords", "Conch")], "hotwords", "unsupported_parameter"),
        ([("to_language", "de")], "to_language", "unsupported_parameter"),
        ([("use_beam_search", "true")], "use_beam_search", "unsupported_parameter"),
        ([("n", "2")], "n", "unsupported_parameter"),
        ([("length_penalty", "0.5")], "length_penalty", "unsupported_parameter"),
        ([("include_stop_str_in_output", "true")], "include_stop_str_in_output", "unsupported_parameter"),
        ([("vllm_xargs", "{a}")], "vllm_xargs", "invalid_value"),
        ([("vllm_xargs", '{"a": 1}')], "vllm_xargs", "unsupported_parameter"),
        ([("vllm_xargs[a]", "1")], "vllm_xargs", "unsupported_parameter"),
        ([("messages", "hi")], "messages", "unsupported_parameter"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_by_name(pairs, param, code):
    assert refused(*pairs) == (param, code)


@pytest.mark.parametrize(
    "pairs",
    [
        [("n", "1"), ("length_penalty", "1.0"), ("use_beam_search", "false")],
        [("chunking_strategy", "auto")],
        [("chunking_strategy[type]", "server_vad")],
        [("chunking_strategy[type]", "server_vad"), ("chunking_strategy[silence_duration_ms]", "200")],
        [("vllm_xargs", "{}"), ("hotwords", ""), ("to_language", "")],
        [("language", "DE"), ("user", "ann"), ("priority", "-1"), ("request_id", "r-1")],
        [("temperature", "1"), ("top_p", "1"), ("top_k", "0"), ("min_p", "0"), ("seed", "-1")],
        [STREAM, ("stream_include_usage", "true")],
    ],
)
def test_what_asks_for_nothing_or_can_be_obeyed_is_taken(pairs):
    assert resolved(*pairs).unknown_fields == 0


def test_unknown_fields_are_counted():
    assert resolved(("mood", "good"), ("colour[]", "red")).unknown_fields == 2


@pytest.mark.parametrize(
    ("pairs", "param", "code"),
    [
        ([("to_language", "de")], "to_language", "unsupported_parameter"),
        ([("include[]", "logprobs")], "include", "unsupported_parameter"),
        ([VERBOSE, WORDS], "timestamp_granularities", "unsupported_parameter"),
        ([("languages[]", "de")], "languages", "unsupported_parameter"),
    ],
)
def test_a_translation_refuses_what_it_has_not(pairs, param, code):
    assert refused(*pairs, endpoint=TRANSLATIONS) == (param, code)


def test_a_translation_takes_the_language_that_is_spoken_and_the_one_that_it_makes():
    found = resolved(("language", "de"), ("to_language", "en"), VERBOSE, endpoint=TRANSLATIONS)
    assert (found.language, found.segments) == ("de", True)


def test_a_model_that_was_not_made_to_translate_does_not():
    known = snapshot(speech_route(SpeechProfile(languages=("en", "de"))))
    assert refused(endpoint=TRANSLATIONS, known=known) == ("model", "unsupported_parameter")


def test_a_model_without_alignment_tells_no_words():
    known = snapshot(speech_route(SpeechProfile(languages=("en",))))
    assert refused(VERBOSE, WORDS, known=known) == ("timestamp_granularities", "unsupported_parameter")


def test_a_model_of_one_language_takes_its_name_alone():
    known = snapshot(speech_route(SpeechProfile()))
    assert resolved(("language", "en"), known=known).language == "en"
    assert refused(("language", "de"), known=known) == ("language", "invalid_value")


def test_usage_in_every_frame_is_for_models_with_the_habits_of_vllm():
    known = snapshot(speech_route(profile=Profile.VLLM))
    assert resolved(STREAM, ("stream_continuous_usage_stats", "true"), known=known).stream


def test_a_file_without_bytes_is_too_short():
    assert refused(size=0) == ("file", "audio_too_short")


def prompts(text):
    preparation = resolved(("prompt", text)).preparation
    return None if preparation is None else from_json(PrepareRequest, preparation)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("  Zoë and Ann ", (" Zoë and Ann",)),
        ("a<|en|>b", (" a<", "|en|>b")),
        ("<|0.00|><|endoftext|>", (" <", "|0.00|><", "|endoftext|>")),
        ("1 < 2 | 3 |> 4", (" 1 < 2 | 3 |> 4",)),
    ],
)
def test_a_prompt_is_text_whatever_it_looks_like(text, pieces):
    work = prompts(text)
    assert (work.prompts, work.add_special_tokens) == (pieces, False)
    assert "".join(work.prompts) == f" {text.strip()}"


def test_a_prompt_that_says_nothing_is_none():
    assert prompts(" \n ") is None


def test_of_a_prompt_in_many_pieces_only_those_are_encoded_that_may_fit():
    assert len(prompts("<|" * 10_000).prompts) == 64


def test_what_the_backend_of_a_model_cannot_obey_is_refused_before_the_tokenizer_is_asked():
    known = snapshot(speech_route(dialect=Dialect.WHISPER_BLS))
    assert refused(known=known) == ("language", "missing_required_parameter")
    english = ("language", "en")
    assert refused(english, ("prompt", "Conch"), known=known) == ("prompt", "unsupported_parameter")
    assert refused(english, ("temperature", "0.2"), endpoint=TRANSLATIONS, known=known)[0] == "temperature"
    assert resolved(english, ("temperature", "0"), known=known).language == "en"
