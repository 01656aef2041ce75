"""What requests say about thinking, and what becomes of it."""

from typing import Any

import pytest

from conch_contracts.messages.answer_parsing import Thinking
from conch_contracts.messages.generation import PreparedPrompt
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.records import ChatProfile, Route
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.requests import thinking, tokenizer_request, validation
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
    ],
)
def test_the_template_is_told_how_much_to_think(fields: dict[str, Any], told: dict[str, Any]) -> None:
    work = tokenizer_request.chat(chat(**fields), model())
    assert work.chat is not None
    assert work.chat.template_kwargs == told


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
