"""Each dialect obeys or refuses what the table of capabilities says, through the real process and the real server."""

from typing import Any

import aiohttp
import pytest

from conch_contracts.capabilities import CAPABILITIES, TENSORRTLLM, Feature, Level
from conch_contracts.messages.generation import Api, Details, ThinkingLimit
from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.messages.message import changed
from conch_contracts.records import Dialect
from testkit.builders.generate_requests import backend, picture
from testkit.engines.dialect_stand_ins import NARROW, PER_DIALECT, StandIn
from testkit.models.vocabularies import BYTE_EOS, BYTE_VOCABULARY

from .asking import FORMS, answer, ask, said
from .conftest import Stage

ASKED: dict[Feature, dict[str, Any]] = {
    Feature.TEMPERATURE: {"sampling": {"temperature": 0.5}},
    Feature.TOP_P: {"sampling": {"temperature": 1, "top_p": 0.5}},
    Feature.TOP_K: {"sampling": {"temperature": 1, "top_k": 5}},
    Feature.MIN_P: {"sampling": {"min_p": 0.1}},
    Feature.SEED: {"sampling": {"seed": 7}},
    Feature.CHOICES: {"n": 2},
    Feature.MIN_TOKENS: {"sampling": {"min_tokens": 2}},
    Feature.STOP: {"stop": ("lo",)},
    Feature.STOP_IDS: {"sampling": {"stop_token_ids": (ord("o"),)}},
    Feature.IGNORE_EOS: {"sampling": {"ignore_eos": True}},
    Feature.REPETITION_PENALTY: {"sampling": {"repetition_penalty": 1.5}},
    Feature.PRESENCE_PENALTY: {"sampling": {"presence_penalty": 0.5}},
    Feature.FREQUENCY_PENALTY: {"sampling": {"frequency_penalty": 0.5}},
    Feature.LOGIT_BIAS: {
        "sampling": {"logit_bias": {3: 1.0}},
        "backend": backend(end_id=BYTE_EOS, vocab_size=BYTE_VOCABULARY),
    },
    Feature.BAD_WORDS: {"sampling": {"bad_words": (tuple(b"bad"), tuple(b" bad"))}},
    Feature.LOGPROBS: {"logprobs": True, "sampling": {"logprobs": 0}},
    Feature.ALTERNATIVES: {"logprobs": True, "sampling": {"logprobs": 2}},
    Feature.LOGPROB_IDS: {"logprobs": True, "sampling": {"logprobs": 0, "logprob_token_ids": (5,)}},
    Feature.PROMPT_LOGPROBS: {"logprobs": True, "sampling": {"logprobs": 0}, "echo": True},
    Feature.ECHO: {"echo": True, "api": Api.COMPLETION},
    Feature.SPECIAL_TOKENS: {"skip_special_tokens": False},
    Feature.ALLOWED_IDS: {
        "sampling": {"allowed_token_ids": (5,)},
        "backend": backend(end_id=BYTE_EOS, vocab_size=BYTE_VOCABULARY),
    },
    Feature.BEAM_SEARCH: {"n": 2, "sampling": {"beams": 2}},
    Feature.SCALED_LOGPROBS: {"logprobs": True, "sampling": {"logprobs": 0, "temp_scaled_logprobs": True}},
    Feature.BEST_OF: {"best_of": 2},
    Feature.GRAMMAR: {"sampling": {"grammar": Grammar(kind=GrammarKind.JSON_OBJECT, definition="")}},
    Feature.TOKEN_IDS: {"details": Details(token_ids=True)},
    Feature.FRAME_TOKENS: {"details": Details(max_frame_tokens=2)},
    Feature.THINKING_BUDGET: {
        "sampling": {"thinking": ThinkingLimit(start_id=1, end_id=2, opened=True, tokens=3)},
    },
    Feature.CACHE_SALT: {"backend": backend(end_id=BYTE_EOS, cache_salt="a")},
    Feature.EXTRA_ARGUMENTS: {"backend": backend(end_id=BYTE_EOS, extra_arguments={"a": 1})},
    Feature.KV_TRANSFER: {"backend": backend(end_id=BYTE_EOS, kv_transfer={"a": 1})},
    Feature.PICTURES: {"prompts": (changed(said("x"), pictures=(picture(b"\1\2\3"),)),)},
    Feature.PROMPT_IDS: {"prompts": (changed(said("x"), text_is_exact=False),)},
}
"""How a message to the worker asks for each feature."""
NEEDS_IDS = {feature for feature, support in TENSORRTLLM.items() if "input_ids" in support.note}
BIASES = {Feature.LOGIT_BIAS, Feature.ALLOWED_IDS}
LLM_API_LACKS = {Feature.MIN_TOKENS, Feature.IGNORE_EOS, Feature.REPETITION_PENALTY, Feature.BAD_WORDS, Feature.GRAMMAR}
UNDECLARED: dict[str, set[Feature]] = {
    "fastertransformer": {Feature.MIN_TOKENS, Feature.PRESENCE_PENALTY},
    "ft-least": {Feature.PRESENCE_PENALTY},
    "trt-bls": NEEDS_IDS | BIASES,
    "trt-bls-old": NEEDS_IDS | BIASES,
    "trt-bls-unary": NEEDS_IDS | BIASES,
    "trt-llm-api": NEEDS_IDS | BIASES | LLM_API_LACKS,
    "trt-llm-api-streamed": NEEDS_IDS | BIASES | LLM_API_LACKS,
    "vllm-old": {Feature.LOGPROBS, Feature.ALTERNATIVES, Feature.BEST_OF, Feature.PICTURES},
}
"""What depends on the model, and the stand-in does not declare."""
TENSORS: dict[Feature, tuple[tuple[str, ...], object]] = {
    Feature.TEMPERATURE: (("temperature", "sampling_param_temperature"), 0.5),
    Feature.TOP_P: (("top_p", "runtime_top_p", "sampling_param_top_p"), 0.5),
    Feature.TOP_K: (("top_k", "runtime_top_k", "sampling_param_top_k"), 5),
    Feature.MIN_P: (("min_p",), 0.1),
    Feature.SEED: (("seed", "random_seed", "sampling_param_seed"), 7),
    Feature.MIN_TOKENS: (("min_tokens", "min_length"), 2),
    Feature.REPETITION_PENALTY: (("repetition_penalty",), 1.5),
    Feature.PRESENCE_PENALTY: (("presence_penalty", "sampling_param_presence_penalty"), 0.5),
    Feature.FREQUENCY_PENALTY: (("frequency_penalty", "sampling_param_frequency_penalty"), 0.5),
    Feature.LOGIT_BIAS: (("logit_bias",), {"3": 1.0}),
    Feature.ALLOWED_IDS: (("allowed_token_ids",), [5]),
    Feature.LOGPROB_IDS: (("logprob_token_ids",), [5]),
    Feature.SCALED_LOGPROBS: (("temp_scaled_logprobs",), True),
    Feature.BEAM_SEARCH: (("beam_width",), 2),
    Feature.PICTURES: (("pictures",), ["010203"]),
    Feature.EXTRA_ARGUMENTS: (("extra_args",), {"a": 1}),
    Feature.KV_TRANSFER: (("extra_args",), {"kv_transfer_params": {"a": 1}}),
}
"""What the engine must have been told, under one of these names; the rest is seen in the answer, or no number."""
ALSO = {
    Feature.PROMPT_LOGPROBS: "echo",
    Feature.PROMPT_IDS: "messages",
    Feature.ALTERNATIVES: "logprobs",
}
"""What else a refusal may name."""
NOT_PLAYED = {(Dialect.TOKENS, Feature.PROMPT_LOGPROBS), (Dialect.TOKENS, Feature.ALTERNATIVES)}
"""What the stand-in does not play; the cpu runtime's own tests do."""


@pytest.mark.parametrize(
    ("model", "feature"),
    [
        pytest.param(model, feature, id=f"{model.name}-{feature.name.lower()}")
        for model in FORMS
        for feature in ASKED
        if (model.dialect, feature) not in NOT_PLAYED
    ],
)
async def test_a_dialect_obeys_or_refuses_as_the_table_says(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn, feature: Feature
) -> None:
    request = ask(engines, model, **{"stream": False, **ASKED[feature]})
    reply = await answer(engines, session, request)
    support = CAPABILITIES[model.dialect][feature]
    undeclared = feature in UNDECLARED.get(model.name, ())
    assert not undeclared or support.level is Level.DECLARED
    lacking = support.level is Level.NO or undeclared
    assert reply.status == (400 if lacking else 200), reply.body
    if lacking:
        assert reply.error["code"] == "unsupported_parameter"
        assert reply.error["param"] in {*feature.params, ALSO.get(feature)}
    elif feature in TENSORS:
        names, value = TENSORS[feature]
        (told, *_) = engines.seen("request", request.request_id)
        found = {**told, **told.get("parameters", {})}
        assert [found[name] for name in names if found.get(name) is not None] == [value], found


def test_each_feature_is_asked_for() -> None:
    assert set(ASKED) == set(Feature)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_schema_that_only_the_engine_refuses_is_named_as_the_client_calls_it(
    engines: Stage, session: aiohttp.ClientSession, stream: bool
) -> None:
    schema = Grammar(kind=GrammarKind.JSON_SCHEMA, definition='{"type": "integer", "multipleOf": 3}')
    model = next(one for one in PER_DIALECT if one.dialect is Dialect.VLLM)
    request = ask(engines, model, stream=stream, sampling={"grammar": schema}, grammar_param="guided_json")
    reply = await answer(engines, session, request)
    assert (reply.status, reply.error["param"], reply.error["code"]) == (400, "guided_json", "invalid_value")


REFUSED_BY_TENSORRTLLM = [
    (NARROW, {"n": 2, "sampling": {"beams": 2}}, "use_beam_search", "invalid_value"),
    (
        PER_DIALECT[2],
        {
            "sampling": {"grammar": Grammar(kind=GrammarKind.REGEX, definition="a(?=b)b")},
            "grammar_param": "structured_outputs.regex",
        },
        "structured_outputs.regex",
        "invalid_value",
    ),
    (
        PER_DIALECT[2],
        {
            "sampling": {"grammar": Grammar(kind=GrammarKind.STRUCTURAL_TAG, definition="{}")},
            "grammar_param": "tool_choice",
        },
        "tool_choice",
        "unsupported_parameter",
    ),
    (PER_DIALECT[2], {"prompts": (said("x" * 20_000),)}, "messages", "context_length_exceeded"),
]


@pytest.mark.parametrize(("model", "changes", "param", "code"), REFUSED_BY_TENSORRTLLM)
async def test_what_tensorrtllm_alone_refuses_is_a_400_too(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn, changes: dict[str, Any], param: str, code: str
) -> None:
    reply = await answer(engines, session, ask(engines, model, **{"stream": False, **changes}))
    assert (reply.status, reply.error["param"], reply.error["code"]) == (400, param, code)
    assert (await answer(engines, session, ask(engines, model))).status == 200


@pytest.mark.parametrize("name", ["trt-bls", "trt-llm-api"])
@pytest.mark.parametrize(
    ("param", "changes"),
    [
        ("stop_token_ids", {"sampling": {"stop_token_ids": (5,)}}),
        ("skip_special_tokens", {"skip_special_tokens": False}),
        ("spaces_between_special_tokens", {"details": Details(spaces_between_special_tokens=False)}),
        ("logprobs", {"logprobs": True, "sampling": {"logprobs": 0}}),
        ("messages", {"prompts": (changed(said("x"), text_is_exact=False),)}),
    ],
)
async def test_models_of_text_refuse_what_only_ids_can_say(
    engines: Stage, session: aiohttp.ClientSession, name: str, param: str, changes: dict[str, Any]
) -> None:
    model = next(one for one in FORMS if one.name == name)
    reply = await answer(engines, session, ask(engines, model, **changes))
    assert (reply.status, reply.error["param"], reply.error["code"]) == (400, param, "unsupported_parameter")
