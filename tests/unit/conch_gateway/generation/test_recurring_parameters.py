"""Requests whose parameters came before: they come to the same as if they were validated anew."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch_contracts.messages.generation import PreparedPrompt
from conch_contracts.messages.message import to_json
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.names import ServedName
from conch_contracts.openai.chat import MAX_MESSAGES
from conch_contracts.records import ChatProfile, Dialect, Engine, GenerationDefaults, Profile
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.generation.endpoints import CHAT, COMPLETIONS, GenerationEndpoint
from conch_gateway.generation.job import GenerationJob
from conch_gateway.generation.recurring_parameters import MAX_BYTES, RecurringParameters
from conch_gateway.generation.resolved import ResolvedGeneration
from conch_kit.errors import ServiceError
from conch_kit.registry.snapshot import Snapshot
from testkit.gateway.fakes import ENGINE, route, snapshot

THINKS = ChatProfile(reasoning=ReasoningParser.THINK, tool_calls=ToolCallParser.HERMES, takes_tools=True)
MODELS = (
    snapshot(route(chat=THINKS)),
    snapshot(route(chat=THINKS, profile=Profile.FASTDEPLOY)),
    snapshot(route(profile=Profile.DENGLIN)),
    snapshot(route(dialect=Dialect.TENSORRTLLM, served_names=(ServedName("tiny-chat"), ServedName("other")))),
)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
VALUES: dict[str, list[Any]] = {
    "model": ["tiny-chat", "other", "nobody", "", None, "default"],
    "temperature": [0, 0.7, 1, 3, "hot"],
    "top_p": [0, 1, 0.5],
    "max_tokens": [1, 16, 60, 64, 65, 0],
    "max_completion_tokens": [5, None],
    "min_tokens": [0, 4, 40],
    "n": [1, 3],
    "best_of": [3],
    "stream": [True, False],
    "stream_options": [{"include_usage": True}],
    "stop": ["end", ["a", "b"], ""],
    "seed": [7, -1, 2**63, 2**70],
    "logprobs": [True, 2],
    "top_logprobs": [2],
    "logit_bias": [{"5": 1}, {"5000": 1}],
    "stop_token_ids": [[4], [4000]],
    "bad_words": [["no"]],
    "tools": [[TOOL]],
    "tool_choice": ["none", "required", "auto"],
    "response_format": [{"type": "json_object"}],
    "reasoning_effort": ["none", "high"],
    "thinking_token_budget": [3],
    "include_reasoning": [False],
    "echo": [True, False],
    "add_generation_prompt": [False, True],
    "continue_final_message": [True],
    "disable_chat_template": [True],
    "prompt_token_ids": [[1, 2]],
    "truncate_prompt_tokens": [-1, 4],
    "truncation_side": ["left", "right"],
    "suffix": ["behind"],
    "user": ["somebody"],
    "metadata": [{"a": "b"}, {"min_tokens": "3"}, {"enable_thinking": True}],
    "something_else": [1],
    "return_token_ids": [True],
}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
MESSAGES: list[Any] = [
    [{"role": "user", "content": "Hello."}],
    [{"content": "Be kind.", "role": "system"}, {"role": "user", "content": ""}, {"role": "assistant", "content": "x"}],
    [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "name": "Ann"}],
    [{"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "4"}],
    [{"role": "tool", "tool_call_id": "c1", "content": "4"}],
    [{"role": "user", "content": "x", "images": ["AA=="]}],
    [{"role": "nobody", "content": "x"}],
    [{"role": ["user"], "content": "x"}],
    [{"role": "user", "content": None}],
    [{"role": "user", "content": 1}],
    [{"role": "user"}],
    ["Hello."],
    [1, 2, 3],
    [1, 2000],
    [],
    None,
    "Hello.",
]
PROMPTS: list[Any] = ["Hello.", "Bye.", "", ["a", "b"], [1, 2], [2000], [[1], [2, 3]], [], None, 5]
ANSWERS = [
    PrepareResponse(prompts=(PreparedPrompt(ids=(1,) * length, text=text),), marks=((5,), (6,)))
    for length, text in ((1, "a"), (20, "a<think>\n"), (40, "<think></think>"), (63, "a"), (64, "a"))
]

parameters = st.dictionaries(st.sampled_from(sorted(VALUES)), st.integers(0, 9), max_size=4).map(
    lambda chosen: {name: VALUES[name][index % len(VALUES[name])] for name, index in chosen.items()}
)


def _resolve(
    endpoint: GenerationEndpoint[Any], document: dict[str, Any], known: Snapshot, recurring: RecurringParameters | None
) -> ResolvedGeneration | tuple[object, ...]:
    try:
        return endpoint.resolve(json.dumps(document).encode(), known, recurring=recurring)
    except ServiceError as error:
        return _said(error)


def _said(error: ServiceError) -> tuple[object, ...]:
    return error.status, error.message, error.param, error.code


def _outcomes(found: ResolvedGeneration | tuple[object, ...]) -> list[object]:
    """Return everything that others are told of a request, or that it is refused with."""
    if isinstance(found, tuple):
        return [found]
    told: list[object] = [found.preparation, found.unknown_fields, found.request.user, found.request.metadata]
    for answer in ANSWERS:
        try:
            job = GenerationJob.of(found, to_json(answer), ids=("r", found.answer_id("1")), created=1)
            told.append(job.message(Engine(grpc=ENGINE), timeout_s=1))
        except ServiceError as error:
            told.append(_said(error))
    return told


@settings(max_examples=1500, deadline=None)
@given(parameters, st.sampled_from(MODELS), st.sampled_from(MESSAGES), st.sampled_from(MESSAGES))
def test_a_chat_comes_to_the_same(fields: dict[str, Any], known: Snapshot, first: object, second: object) -> None:
    recurring = RecurringParameters()
    _resolve(CHAT, {**fields, "messages": first}, known, recurring)
    document = {**fields, "messages": second}
    found = _resolve(CHAT, document, known, recurring)
    assert _outcomes(found) == _outcomes(_resolve(CHAT, document, known, None))


@settings(max_examples=1000, deadline=None)
@given(parameters, st.sampled_from(MODELS), st.sampled_from(PROMPTS), st.sampled_from(PROMPTS))
def test_a_completion_comes_to_the_same(fields: dict[str, Any], known: Snapshot, first: object, second: object) -> None:
    recurring = RecurringParameters()
    _resolve(COMPLETIONS, {**fields, "prompt": first}, known, recurring)
    document = {**fields, "prompt": second}
    found = _resolve(COMPLETIONS, document, known, recurring)
    assert _outcomes(found) == _outcomes(_resolve(COMPLETIONS, document, known, None))


SPOKEN = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "So"}]
OTHERS = [{"role": "user", "name": "Ann", "content": "Hello."}, {"role": "user", "content": "Well"}]
FILLS_IN = snapshot(route(generation=GenerationDefaults(fill_in="a{prefix}b{suffix}c")))


@pytest.mark.parametrize(
    ("endpoint", "fields", "first", "second"),
    [
        (CHAT, {"echo": True}, SPOKEN, OTHERS),
        (CHAT, {"echo": True}, OTHERS, SPOKEN),
        (CHAT, {"add_generation_prompt": False}, SPOKEN, OTHERS),
        (CHAT, {"disable_chat_template": True}, SPOKEN, OTHERS),
        (CHAT, {"add_generation_prompt": False, "continue_final_message": True}, SPOKEN, OTHERS),
        (CHAT, {"prompt_token_ids": [1]}, SPOKEN, OTHERS),
        (CHAT, {}, SPOKEN, OTHERS),
        (COMPLETIONS, {"prompt_token_ids": [1]}, "a", "b"),
        (COMPLETIONS, {"suffix": "behind"}, "a", "b"),
        (COMPLETIONS, {"echo": True}, "a", "b"),
        (COMPLETIONS, {}, [1, 2], "b"),
    ],
)
def test_what_looks_into_the_prompt_sees_the_right_one(
    endpoint: GenerationEndpoint[Any], fields: dict[str, Any], first: object, second: object
) -> None:
    recurring, param = RecurringParameters(), endpoint.prompt.param
    before = _resolve(endpoint, {**fields, param: first}, FILLS_IN, recurring)
    assert isinstance(before, ResolvedGeneration)
    found = _resolve(endpoint, {**fields, param: second}, FILLS_IN, recurring)
    assert _outcomes(found) == _outcomes(_resolve(endpoint, {**fields, param: second}, FILLS_IN, None))


CHAT_DOCUMENT = {"messages": MESSAGES[0], "max_tokens": 5, "temperature": 0.5}


def remembers(
    first: dict[str, Any],
    second: dict[str, Any],
    recurring: RecurringParameters | None = None,
    endpoint: GenerationEndpoint[Any] = CHAT,
    known: tuple[Snapshot, Snapshot] = (MODELS[0], MODELS[0]),
) -> bool:
    """Tell whether the second request was spared its validation: it has the first one's parameters then."""
    recurring = RecurringParameters() if recurring is None else recurring
    one, other = (_resolve(endpoint, body, each, recurring) for body, each in zip((first, second), known, strict=True))
    assert isinstance(one, ResolvedGeneration)
    assert isinstance(other, ResolvedGeneration)
    return one.findings is other.findings


@pytest.mark.parametrize("messages", MESSAGES[:4])
def test_another_conversation_is_spared_the_validation(messages: object) -> None:
    assert remembers(CHAT_DOCUMENT, {**CHAT_DOCUMENT, "messages": messages})


def test_a_message_that_asks_for_what_is_not_done_is_refused_with_known_parameters_too() -> None:
    recurring = RecurringParameters()
    assert isinstance(_resolve(CHAT, CHAT_DOCUMENT, MODELS[0], recurring), ResolvedGeneration)
    unfinished = {**CHAT_DOCUMENT, "messages": [{"role": "assistant", "content": "x", "prefix": True}]}
    found = _resolve(CHAT, unfinished, MODELS[0], recurring)
    assert isinstance(found, tuple)
    assert found[2:] == ("messages.0.prefix", "unsupported_parameter")


def test_another_text_is_spared_it() -> None:
    assert remembers({"prompt": "a"}, {"prompt": "b"}, endpoint=COMPLETIONS)
    assert not remembers({"prompt": "a"}, {"prompt": ["b"]}, endpoint=COMPLETIONS)


@pytest.mark.parametrize("change", [{"temperature": 1}, {"max_tokens": 6}, {"echo": False}, {"user": "x"}])
def test_other_parameters_are_not(change: dict[str, Any]) -> None:
    assert not remembers(CHAT_DOCUMENT, {**CHAT_DOCUMENT, **change})


def test_a_model_whose_route_has_changed_is_looked_at_anew() -> None:
    assert not remembers(CHAT_DOCUMENT, CHAT_DOCUMENT, known=(MODELS[0], MODELS[1]))


def test_what_is_remembered_has_bounds() -> None:
    recurring = RecurringParameters(most=2)
    asked = [{**CHAT_DOCUMENT, "seed": seed} for seed in range(3)]
    for document in asked:
        assert remembers(document, document, recurring)
    assert len(recurring) == 2
    long = {**CHAT_DOCUMENT, "unheard_of": "u" * MAX_BYTES}
    assert not remembers(long, long)


@pytest.mark.parametrize("plain", [True, False])
def test_a_conversation_of_too_many_messages_is_validated_whole(plain: bool) -> None:
    said = [{"role": "user", "content": "hi" if plain else [{"type": "text", "text": "hi"}]}]
    first = _resolve(CHAT, {**CHAT_DOCUMENT, "messages": said}, MODELS[0], recurring := RecurringParameters())
    assert isinstance(first, ResolvedGeneration)
    again = _resolve(CHAT, {**CHAT_DOCUMENT, "messages": said * (MAX_MESSAGES + 1)}, MODELS[0], recurring)
    assert not isinstance(again, ResolvedGeneration)


def test_what_is_remembered_holds_no_prompt() -> None:
    recurring = RecurringParameters()
    found = [_resolve(CHAT, CHAT_DOCUMENT, MODELS[0], recurring) for _ in range(2)]
    assert isinstance(found[1], ResolvedGeneration)
    assert getattr(found[1].request, "messages", "none") is None
