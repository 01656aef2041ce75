"""What a backend lacks is refused by name and with the reason, before anything is asked of anyone."""

import pytest

from conch_contracts.capabilities import CAPABILITIES, LACKS, Feature
from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.records import Dialect
from conch_gateway.constraints.structured_output import Constraint
from conch_gateway.requests import capability_check, parameters
from conch_kit.errors import InvalidRequest

GENERATING = tuple(CAPABILITIES)
FOREIGN = {Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM, Dialect.VLLM}


def chat(**fields):
    request = ChatCompletionRequest.model_validate({"messages": [{"role": "user", "content": "hi"}], **fields})
    return request, parameters.chat_shape(request)


def completion(**fields):
    request = CompletionRequest.model_validate({"prompt": "hi", **fields})
    return request, parameters.completion_shape(request)


REFUSED = [
    (chat(min_p=0.1), {Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM}, "min_p"),
    (chat(logit_bias={"3": 1.0}), {Dialect.FASTERTRANSFORMER, Dialect.VLLM}, "logit_bias"),
    (chat(ignore_eos=True), {Dialect.FASTERTRANSFORMER}, "ignore_eos"),
    (chat(frequency_penalty=0.5), {Dialect.FASTERTRANSFORMER}, "frequency_penalty"),
    (chat(logprobs=True, top_logprobs=2), {Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM}, "top_logprobs"),
    (completion(logprobs=2), {Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM}, "logprobs"),
    (
        completion(logprobs=0, echo=True),
        {Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM, Dialect.VLLM},
        "echo",
    ),
    (chat(truncate_prompt_tokens=5), {Dialect.VLLM}, "truncate_prompt_tokens"),
    (completion(prompt_token_ids=[5]), {Dialect.VLLM}, "prompt_token_ids"),
    (completion(prompt=[5, 6]), {Dialect.VLLM}, "prompt"),
    (completion(prompt=[[5], [6]]), {Dialect.VLLM}, "prompt"),
    (chat(prompt_token_ids=[5]), {Dialect.VLLM}, "prompt_token_ids"),
    (chat(allowed_token_ids=[5]), {Dialect.FASTERTRANSFORMER}, "allowed_token_ids"),
    (chat(logprobs=True, logprob_token_ids=[5]), FOREIGN, "logprob_token_ids"),
    (chat(prompt_logprobs=1), FOREIGN, "prompt_logprobs"),
    (chat(use_beam_search=True, length_penalty=2, n=2), {Dialect.TOKENS, Dialect.VLLM}, "use_beam_search"),
    (chat(thinking_token_budget=5), FOREIGN, "thinking_token_budget"),
    (chat(reasoning_max_tokens=5), FOREIGN, "reasoning_max_tokens"),
    (chat(vllm_xargs={"a": 1}), set(GENERATING) - {Dialect.VLLM}, "vllm_xargs"),
    (chat(kv_transfer_params={"a": 1}), set(GENERATING) - {Dialect.VLLM}, "kv_transfer_params"),
    (chat(kv_transfer_params={"do_remote_decode": False}), set(GENERATING) - {Dialect.VLLM}, "kv_transfer_params"),
    (chat(kv_transfer_params={}), set(), "kv_transfer_params"),
    (chat(cache_salt="a"), {Dialect.TENSORRTLLM, Dialect.VLLM}, "cache_salt"),
    (chat(logprobs=True, temp_scaled_logprobs=True), FOREIGN, "temp_scaled_logprobs"),
    (chat(return_token_ids=True), {Dialect.VLLM}, "return_token_ids"),
    (chat(max_streaming_response_tokens=3), {Dialect.VLLM}, "max_streaming_response_tokens"),
    (chat(best_of=3), set(), ""),
    (chat(vllm_xargs={}, cache_salt=None, length_penalty=1.0, use_beam_search=False), set(), ""),
    (chat(logprobs=True), set(), ""),
    (completion(logprobs=0), set(), ""),
    (completion(echo=True), set(), ""),
    (chat(min_p=0, logit_bias={}, ignore_eos=False, frequency_penalty=0, truncate_prompt_tokens=None), set(), ""),
    (chat(temperature=0.5, top_p=0.5, top_k=5, seed=1, n=2, stop=["a"], min_tokens=2), set(), ""),
]


@pytest.mark.parametrize("dialect", GENERATING)
@pytest.mark.parametrize(("asked", "lacking", "param"), REFUSED)
def test_a_lack_is_a_400_that_names_the_parameter_and_the_reason(asked, lacking, param, dialect):
    if dialect not in lacking:
        capability_check.check(*asked, dialect)
        return
    with pytest.raises(InvalidRequest) as caught:
        capability_check.check(*asked, dialect)
    assert (caught.value.param, caught.value.code) == (param, "unsupported_parameter")
    assert f"This model's backend ({dialect}) cannot obey '{param}': " in caught.value.message


def test_a_cache_that_nobody_could_find_is_not_made():
    with pytest.raises(InvalidRequest, match="does not tell where another engine would find the cache") as caught:
        capability_check.check(*chat(kv_transfer_params={"do_remote_decode": True}), Dialect.VLLM)
    assert caught.value.param == "kv_transfer_params.do_remote_decode"
    assert caught.value.code == "unsupported_parameter"


@pytest.mark.parametrize("dialect", GENERATING)
def test_a_form_that_cannot_be_kept_is_refused_under_its_own_name(dialect):
    asked = Constraint("guided_json", Grammar(kind=GrammarKind.JSON_OBJECT, definition=""))
    if dialect is not Dialect.FASTERTRANSFORMER:
        capability_check.check_form(asked, dialect)
        return
    with pytest.raises(InvalidRequest, match="cannot keep an answer to a grammar") as caught:
        capability_check.check_form(asked, dialect)
    assert (caught.value.param, caught.value.code) == ("guided_json", "unsupported_parameter")


def test_every_dialect_says_something_of_every_feature_and_why_not():
    for table in CAPABILITIES.values():
        assert set(table) == set(Feature)
    assert all(reason for lacks in LACKS.values() for reason in lacks.values())


@pytest.mark.parametrize("dialect", GENERATING)
def test_a_request_that_asks_for_nothing_special_lacks_nothing(dialect):
    capability_check.check(*chat(temperature=0.5, max_tokens=5, stream=True), dialect)
