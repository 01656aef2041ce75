"""What a dialect cannot send is refused by name, and no parameter is forgotten."""

from typing import Any

import pytest

from conch_contracts.messages.generation import BackendOptions, Details, SamplingParameters, ThinkingLimit
from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.messages.message import changed
from conch_contracts.records import Dialect
from conch_kit.errors import InvalidRequest
from conch_llm_worker.dialects.capability_check import refuse
from testkit.builders.generate_requests import backend, generate_request, picture, prompt, sampling, target

SENT = (
    {"max_tokens", "min_tokens", "temperature", "top_p", "top_k", "seed", "eos_token_ids", "stop_token_ids"}
    | {"repetition_penalty", "presence_penalty", "bad_words"}
    | {"start_id", "end_id", "mask_positions", "stop_words"}
)
"""What every dialect sends where the model declares it."""
KNOWN = {"vocab_size"}
"""What no engine is asked for: a dialect must know it to send something else."""
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "min_p": ("min_p", {"sampling": {"min_p": 0.1}}),
    "ignore_eos": ("ignore_eos", {"sampling": {"ignore_eos": True}}),
    "frequency_penalty": ("frequency_penalty", {"sampling": {"frequency_penalty": 1.0}}),
    "logit_bias": ("logit_bias", {"sampling": {"logit_bias": {1: 1.0}}}),
    "allowed_token_ids": ("allowed_token_ids", {"sampling": {"allowed_token_ids": (1,)}}),
    "logprobs": ("top_logprobs", {"sampling": {"logprobs": 2}, "logprobs": True}),
    "logprob_token_ids": (
        "logprob_token_ids",
        {"sampling": {"logprobs": 0, "logprob_token_ids": (1,)}, "logprobs": True},
    ),
    "prompt_logprobs": ("prompt_logprobs", {"details": Details(prompt_logprobs=0)}),
    "temp_scaled_logprobs": ("temp_scaled_logprobs", {"sampling": {"temp_scaled_logprobs": True}, "logprobs": True}),
    "top_p_normalized_logprobs": (
        "top_p_normalized_logprobs",
        {"sampling": {"top_p_normalized_logprobs": True}, "logprobs": True},
    ),
    "beams": ("use_beam_search", {"sampling": {"beams": 2}}),
    "length_penalty": ("use_beam_search", {"sampling": {"beams": 2, "length_penalty": 2.0}}),
    "grammar": ("response_format", {"sampling": {"grammar": Grammar(kind=GrammarKind.JSON_OBJECT, definition="")}}),
    "thinking": (
        "thinking_token_budget",
        {"sampling": {"thinking": ThinkingLimit(start_id=1, end_id=2, opened=True, tokens=3)}},
    ),
    "cache_salt": ("cache_salt", {"backend": backend(cache_salt="a")}),
    "extra_arguments": ("vllm_xargs", {"backend": backend(extra_arguments={"a": 1})}),
    "kv_transfer": ("kv_transfer_params", {"backend": backend(kv_transfer={"a": 1})}),
}
"""What some dialect cannot send: the parameter that is refused, and a request that asks for it."""


def refused(dialect: Dialect, changes: dict[str, Any]) -> str | None:
    parameters = sampling(**changes.get("sampling", {}))
    request = generate_request(target=target(dialect), **{**changes, "sampling": parameters})
    try:
        refuse(request, parameters)
    except InvalidRequest as refusal:
        return refusal.param
    return None


def test_every_parameter_of_an_engine_is_sent_or_refused() -> None:
    assert {*SamplingParameters.__struct_fields__, *BackendOptions.__struct_fields__} == SENT | KNOWN | ASKED.keys()


@pytest.mark.parametrize("name", ASKED)
def test_some_dialect_refuses_what_not_all_can_send(name: str) -> None:
    param, changes = ASKED[name]
    lacking = {refused(dialect, changes) for dialect in (Dialect.TOKENS, Dialect.FASTERTRANSFORMER, Dialect.VLLM)}
    assert param in lacking
    assert lacking <= {param, None}


def test_a_form_is_refused_under_the_name_that_asked_for_it() -> None:
    _, changes = ASKED["grammar"]
    assert refused(Dialect.FASTERTRANSFORMER, {**changes, "grammar_param": "guided_regex"}) == "guided_regex"


@pytest.mark.parametrize(
    ("dialect", "param"),
    [
        (Dialect.TOKENS, None),
        (Dialect.VLLM, None),
        (Dialect.FASTERTRANSFORMER, "image_url"),
        (Dialect.TENSORRTLLM, "image_url"),
    ],
)
def test_a_picture_of_any_prompt_is_refused_where_the_dialect_has_none(dialect: Dialect, param: str | None) -> None:
    prompts = (prompt(), changed(prompt(), pictures=(picture(),)))
    assert refused(dialect, {"prompts": prompts}) == param


@pytest.mark.parametrize("dialect", [Dialect.TOKENS, Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM, Dialect.VLLM])
def test_a_plain_request_is_never_refused(dialect: Dialect) -> None:
    assert refused(dialect, {"sampling": {"seed": 1, "top_p": 0.5}, "logprobs": True}) is None
