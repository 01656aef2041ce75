"""Text between a prompt and a suffix."""

import pytest

from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.records import GenerationDefaults
from conch_gateway.requests import tokenizer_request
from conch_kit.errors import InvalidRequest
from testkit.gateway.fakes import route


def completion(**fields):
    return CompletionRequest.model_validate({"prompt": "hi", **fields})


FILL_IN = route(generation=GenerationDefaults(fill_in="<P>{prefix}<S>{suffix}<M>"))


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [("a", ("<P>a<S>z<M>",)), (["a", "{suffix}"], ("<P>a<S>z<M>", "<P>{suffix}<S>z<M>"))],
)
def test_a_suffix_goes_where_the_models_template_says(prompt, expected):
    assert tokenizer_request.completion(completion(prompt=prompt, suffix="z"), FILL_IN).prompts == expected


@pytest.mark.parametrize(
    ("prompt", "known", "code"), [("a", route(), "unsupported_parameter"), ([1], FILL_IN, "invalid_value")]
)
def test_a_suffix_that_cannot_be_filled_in_is_refused(prompt, known, code):
    with pytest.raises(InvalidRequest) as caught:
        tokenizer_request.completion(completion(prompt=prompt, suffix="z"), known)
    assert (caught.value.param, caught.value.code) == ("suffix", code)
