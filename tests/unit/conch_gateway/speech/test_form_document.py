"""What the text of a form stands for."""

import pytest

from conch_gateway.http.form_parser import FormField
from conch_gateway.speech.form_document import document_of
from conch_kit.errors import InvalidRequest


def fields(*pairs):
    return [FormField(name, text) for name, text in pairs]


@pytest.mark.parametrize(
    ("pairs", "document"),
    [
        ([], {}),
        ([("model", "7"), ("prompt", "true"), ("language", "1")], {"model": "7", "prompt": "true", "language": "1"}),
        ([("temperature", "0.5"), ("top_k", "-1"), ("seed", "12")], {"temperature": 0.5, "top_k": -1, "seed": 12}),
        ([("temperature", "1e-1"), ("n", "1.0")], {"temperature": 0.1, "n": 1.0}),
        ([("stream", "true"), ("use_beam_search", "False")], {"stream": True, "use_beam_search": False}),
        (
            [("temperature", "nan"), ("top_p", "1,5"), ("seed", "0x1")],
            {"temperature": "nan", "top_p": "1,5", "seed": "0x1"},
        ),
        ([("seed", "01"), ("top_p", "+1"), ("min_p", " 1")], {"seed": "01", "top_p": "+1", "min_p": " 1"}),
        ([("stream", "yes"), ("top_k", "9" * 40)], {"stream": "yes", "top_k": "9" * 40}),
        ([("temperature", ""), ("language", ""), ("prompt", "")], {}),
        ([("include[]", "logprobs")], {"include": ["logprobs"]}),
        ([("include", "logprobs")], {"include": ["logprobs"]}),
        (
            [("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")],
            {"timestamp_granularities": ["word", "segment"]},
        ),
        (
            [("timestamp_granularities[0]", "word"), ("timestamp_granularities[1]", "segment")],
            {"timestamp_granularities": ["word", "segment"]},
        ),
        ([("languages", "de"), ("languages", "en"), ("languages", "")], {"languages": ["de", "en"]}),
        ([("other[]", "1")], {"other": ["1"]}),
        ([("chunking_strategy", "auto")], {"chunking_strategy": "auto"}),
        (
            [("chunking_strategy[type]", "server_vad"), ("chunking_strategy[threshold]", "0.5")],
            {"chunking_strategy": {"type": "server_vad", "threshold": 0.5}},
        ),
        ([("chunking_strategy", '{"type":"server_vad"}')], {"chunking_strategy": {"type": "server_vad"}}),
        ([("vllm_xargs", '{"a":1,"b":"c"}')], {"vllm_xargs": {"a": 1, "b": "c"}}),
        ([("vllm_xargs[a]", "1"), ("vllm_xargs[b]", "c")], {"vllm_xargs": {"a": 1, "b": "c"}}),
        ([("a[b][c]", "1"), ("[]", "2")], {"a[b][c]": 1, "[]": 2}),
    ],
)
def test_a_form_is_the_document_that_a_json_body_would_have_been(pairs, document):
    found = document_of(fields(*pairs))
    assert found == document
    assert [type(value) for value in found.values()] == [type(value) for value in document.values()]


@pytest.mark.parametrize(
    ("pairs", "param"),
    [
        ([("model", "a"), ("model", "a")], "model"),
        ([("stream", "true"), ("stream", "false")], "stream"),
        ([("vllm_xargs[a]", "1"), ("vllm_xargs[a]", "2")], "vllm_xargs.a"),
        ([("vllm_xargs[a]", "1"), ("vllm_xargs", "{}")], "vllm_xargs"),
        ([("vllm_xargs", "{}"), ("vllm_xargs", "{}")], "vllm_xargs"),
        ([("other", "1"), ("other[]", "1")], "other"),
        ([("other[]", "1"), ("other[a]", "1")], "other"),
        ([("vllm_xargs", "{"), ("model", "a")], "vllm_xargs"),
        ([("vllm_xargs", "[1]")], "vllm_xargs"),
        ([("vllm_xargs", '{"a":1,"a":2}')], "vllm_xargs"),
        ([("chunking_strategy", "{auto")], "chunking_strategy"),
    ],
)
def test_what_is_said_twice_or_in_two_forms_is_refused(pairs, param):
    with pytest.raises(InvalidRequest) as caught:
        document_of(fields(*pairs))
    assert (caught.value.param, caught.value.code) == (param, "invalid_value")
