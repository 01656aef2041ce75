"""What requests say about thinking, and what becomes of it."""

from typing import Any

import pytest

from conch_contracts.messages.answer_parsing import Parsing, Thinking
from conch_contracts.messages.generation import PreparedPrompt
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.records import ChatProfile, Profile, Route
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.requests import parameters, thinking, tokenizer_request, validation
from conch_gateway.requests.answer_parsing import parsing_of
from conch_kit.errors import InvalidRequest
from testkit.gateway.fakes import route

TOOL = {"type": "function", "function": {"name": "now"}}
THINK = ReasoningParser.THINK


def chat(**fields: Any) -> ChatCompletionRequest:
    return validation.chat({"messages": [{"role": "user", "content": "hi"}], **fields}).request


def model(parser: ReasoningParser = THINK, **changes: Any) -> Route:
    profile = ChatProfile(reasoning=parser, tool_calls=ToolCallParser.HERMES, takes_tools=True)
    return route(chat=profile, **changes)


def rendered(text: str) -> PrepareResponse:
    return PrepareResponse(prompts=(PreparedPrompt(ids=(1,), text=text),))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, {}),
        ({"reasoning_effort": "none"}, {"enable_thinking": False, "thinking": False, "reasoning_effort": "none"}),
        ({"reasoning_effort": "minimal"}, {"reasoning_effort": "minimal"}),
        ({"reasoning_effort": "high"}, {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
        ({"tools": [TOOL], "tool_choice": "required"}, {"enable_thinking": False, "thinking": False}),
        ({"enable_thinking": False}, {"enable_thinking": False, "thinking": False}),
        ({"thinking": True}, {"enable_thinking": True, "thinking": True}),
        ({"thinking": {"type": "disabled"}}, {"enable_thinking": False, "thinking": False}),
        ({"reasoning": {"enabled": True}}, {"enable_thinking": True, "thinking": True}),
        (
            {"reasoning": {"effort": "high"}, "thinking": {"type": "enabled"}},
            {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
        ),
        ({"reasoning": {}}, {}),
        (
            {"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": True, "options": "x"}},
            {"enable_thinking": True, "thinking": True, "options": "x"},
        ),
    ],
)
def test_the_template_is_told_how_much_to_think(fields: dict[str, Any], told: dict[str, Any]) -> None:
    work = tokenizer_request.chat(chat(**fields), model())
    assert work.chat is not None
    assert work.chat.template_kwargs == told


@pytest.mark.parametrize(
    ("fields", "thinks"),
    [
        ({"metadata": {"enable_thinking": False}}, False),
        ({"metadata": {"enable_thinking": "true"}}, True),
        ({"metadata": {"enable_thinking": True}, "enable_thinking": False}, False),
        ({"metadata": {"enable_thinking": True}, "reasoning_effort": "none"}, False),
        ({"metadata": {"enable_thinking": True}, "chat_template_kwargs": {"enable_thinking": False}}, False),
    ],
)
def test_the_metadata_switch_thinking_for_fastdeploys_clients(fields: dict[str, Any], thinks: bool) -> None:
    work = tokenizer_request.chat(chat(**fields), model(profile=Profile.FASTDEPLOY))
    assert work.chat is not None
    assert work.chat.template_kwargs["enable_thinking"] is thinks


@pytest.mark.parametrize("profile", [Profile.OPENAI, Profile.DENGLIN])
def test_metadata_are_notes_to_all_others(profile: Profile) -> None:
    work = tokenizer_request.chat(chat(metadata={"enable_thinking": "true"}), model(profile=profile))
    assert work.chat is not None
    assert work.chat.template_kwargs == {}
    with pytest.raises(InvalidRequest, match=r"metadata\.enable_thinking"):
        parameters.check_habits(chat(metadata={"enable_thinking": True}), profile)


def test_a_switch_in_the_metadata_is_one() -> None:
    with pytest.raises(InvalidRequest, match="expected true or false, found 'maybe'"):
        tokenizer_request.chat(chat(metadata={"enable_thinking": "maybe"}), model(profile=Profile.FASTDEPLOY))


def test_a_text_has_no_thinking_to_switch() -> None:
    request = validation.completion({"prompt": "hi", "metadata": {"enable_thinking": True}}).request
    with pytest.raises(InvalidRequest, match="use 'enable_thinking' of chat"):
        parameters.check_habits(request, Profile.FASTDEPLOY)


@pytest.mark.parametrize(
    ("prompt", "parser", "found"),
    [
        ("<|im_start|>assistant\n", THINK, Thinking(parser=THINK)),
        ("<|im_start|>assistant\n<think>\n", THINK, Thinking(parser=THINK, opened=True)),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", THINK, None),
        ("What is <think>? Say </think>!<|im_start|>assistant\n", THINK, Thinking(parser=THINK)),
        ("x", ReasoningParser.NONE, None),
        ("x", ReasoningParser.MISTRAL, Thinking(parser=ReasoningParser.MISTRAL)),
    ],
)
def test_the_rendered_prompt_tells_where_the_answer_begins(
    prompt: str, parser: ReasoningParser, found: Thinking | None
) -> None:
    assert thinking.thinking(chat(), model(parser), rendered(prompt)) == found


def test_thinking_that_is_not_wanted_is_read_all_the_same() -> None:
    found = parsing_of(chat(include_reasoning=False), model(), rendered("x"))
    assert found is not None
    assert found.thinking == Thinking(parser=THINK, show=False)
    assert found.calls is None


def test_a_model_that_does_neither_costs_nothing() -> None:
    assert parsing_of(chat(), route(), rendered("x")) is None


def texts(*prompts: str) -> PrepareResponse:
    return PrepareResponse(prompts=tuple(PreparedPrompt(ids=(1,), text=text) for text in prompts))


@pytest.mark.parametrize(
    ("profile", "prompts", "found"),
    [
        (Profile.FASTDEPLOY, ("x", "y"), Parsing(thinking=Thinking(parser=THINK))),
        (Profile.FASTDEPLOY, ("x<think>\n",), Parsing(thinking=Thinking(parser=THINK, opened=True))),
        (Profile.FASTDEPLOY, ("<think>a</think>",), None),
        (Profile.OPENAI, ("x",), None),
        (Profile.DENGLIN, ("x",), None),
    ],
)
def test_texts_are_taken_apart_for_fastdeploys_clients_alone(
    profile: Profile, prompts: tuple[str, ...], found: Parsing | None
) -> None:
    request = validation.completion({"prompt": list(prompts)}).request
    assert parsing_of(request, model(profile=profile), texts(*prompts)) == found
    assert parsing_of(request, model(ReasoningParser.NONE, profile=profile), texts(*prompts)) is None


def test_texts_that_begin_in_and_outside_the_thinking_need_a_request_each() -> None:
    request = validation.completion({"prompt": ["a", "b<think>"]}).request
    with pytest.raises(InvalidRequest) as caught:
        parsing_of(request, model(profile=Profile.FASTDEPLOY), texts("a", "b<think>"))
    assert (caught.value.param, caught.value.code) == ("prompt", "invalid_value")


@pytest.mark.parametrize(
    "fields", [{"thinking": {"type": "enabled", "budget_tokens": 5}}, {"reasoning": {"max_tokens": 5}}]
)
def test_a_budget_counts_under_every_name(fields: dict[str, Any]) -> None:
    assert thinking.budget(chat(**fields)) == 5
    assert tokenizer_request.chat(chat(**fields), model()).marks == ("<think>", "</think>")


@pytest.mark.parametrize(("excluded", "shown"), [(True, False), (False, True)])
def test_thinking_is_hidden_under_either_name(excluded: bool, shown: bool) -> None:
    found = thinking.thinking(chat(reasoning={"exclude": excluded}), model(), rendered("x"))
    assert found == Thinking(parser=THINK, show=shown)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"enable_thinking": True, "thinking": False}, "thinking"),
        ({"thinking": {"type": "enabled"}, "reasoning": {"enabled": False}}, "reasoning.enabled"),
        ({"reasoning_effort": "low", "reasoning": {"effort": "high"}}, "reasoning.effort"),
        ({"reasoning_max_tokens": 1, "thinking": {"type": "enabled", "budget_tokens": 2}}, "thinking.budget_tokens"),
        ({"thinking_token_budget": 1, "reasoning": {"max_tokens": 2}}, "reasoning.max_tokens"),
        ({"include_reasoning": True, "reasoning": {"exclude": True}}, "reasoning.exclude"),
        ({"enable_thinking": True, "reasoning_effort": "none"}, "reasoning_effort"),
        ({"enable_thinking": False, "reasoning_effort": "low"}, "reasoning_effort"),
        ({"thinking": False, "chat_template_kwargs": {"enable_thinking": True}}, "chat_template_kwargs"),
        ({"reasoning_effort": "none", "chat_template_kwargs": {"thinking": True}}, "chat_template_kwargs"),
        ({"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}}, "chat_template_kwargs"),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, "reasoning.summary"),
        ({"thinking": {"type": "enabled", "clear_thinking": True}}, "thinking.clear_thinking"),
        ({"thinking": {"type": "auto"}}, "thinking.type"),
        ({"enable_thinking": "yes"}, "enable_thinking"),
    ],
)
def test_contradictions_and_unknown_wishes_are_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat(**fields)
    assert (caught.value.param, caught.value.code) == (param, "invalid_value")


@pytest.mark.parametrize("name", ["reasoning_max_tokens", "thinking_token_budget"])
def test_a_budget_that_cannot_be_kept_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="not known how this model marks its thinking") as caught:
        tokenizer_request.chat(chat(**{name: 5}), model(ReasoningParser.NONE))
    assert (caught.value.param, caught.value.code) == (name, "unsupported_parameter")


def test_a_budget_makes_the_tokenizer_spell_the_marks() -> None:
    assert tokenizer_request.chat(chat(thinking_token_budget=5), model()).marks == ("<think>", "</think>")
    assert tokenizer_request.chat(chat(), model()).marks == ()
    assert tokenizer_request.chat(chat(thinking_token_budget=-1), model()).marks == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_max_tokens": 1, "thinking_token_budget": 2},
        {"thinking_token_budget": -2},
        {"reasoning_max_tokens": -1},
        {"reasoning_effort": "much"},
    ],
)
def test_nonsense_about_thinking_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        chat(**fields)


@pytest.mark.parametrize("ids", [((1, 2), (3,)), ((1,), ()), ()])
def test_marks_of_several_tokens_cannot_bound_the_thinking(ids: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(InvalidRequest, match="not one token each"):
        thinking.one_token_each(ids, chat(thinking_token_budget=5))
