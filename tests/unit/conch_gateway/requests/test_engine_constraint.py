"""What the engine is told so that the answer can be taken apart as the request demands."""

import json
from typing import Any

import pytest

from conch_contracts.messages.generation import PreparedPrompt, SamplingParameters, ThinkingLimit
from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.records import ChatProfile
from conch_contracts.thinking_marks import THINKING_MARKS, ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.constraints import structural_tags, tool_use
from conch_gateway.constraints.structured_output import Constraint
from conch_gateway.requests import engine_constraint, validation
from conch_gateway.requests.answer_parsing import parsing_of
from conch_kit.errors import InvalidRequest
from testkit.gateway.fakes import route

TOOL = {"type": "function", "function": {"name": "now"}}
MODEL = route(chat=ChatProfile(reasoning=ReasoningParser.THINK, tool_calls=ToolCallParser.HERMES, takes_tools=True))
SAMPLING = SamplingParameters(max_tokens=5)
OPENED = "assistant\n<think>\n"


def chat(**fields: Any) -> ChatCompletionRequest:
    return validation.chat({"messages": [{"role": "user", "content": "hi"}], **fields}).request


def told(request: ChatCompletionRequest, prompt: str = "assistant\n", grammar: Grammar | None = None) -> Any:
    """Return the sampling parameters that go to the engine."""
    prepared = PrepareResponse(prompts=(PreparedPrompt(ids=(1,), text=prompt),), marks=((8,), (9,)))
    found = parsing_of(request, MODEL, prepared)
    asked = None if grammar is None else Constraint("response_format", grammar)
    constraint = engine_constraint.constraint(request, MODEL, asked)
    return engine_constraint.constrained(SAMPLING, request, constraint, prepared, found)


def test_a_plain_request_is_told_nothing() -> None:
    assert told(chat()) == SAMPLING
    assert told(chat(tools=[TOOL])) == SAMPLING


def test_a_demanded_call_becomes_a_grammar() -> None:
    request = chat(tools=[TOOL], tool_choice="required")
    asked = Grammar(kind=GrammarKind.JSON_OBJECT, definition="")
    demanded = tool_use.form(request, MODEL)
    assert demanded is not None
    assert told(request).grammar == told(request, grammar=asked).grammar == structural_tags.structural(demanded)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "now"}}])
def test_a_demanded_call_leaves_no_text_to_be_guided(choice: Any) -> None:
    asked = Constraint("guided_choice", Grammar(kind=GrammarKind.CHOICE, definition='["a"]'))
    with pytest.raises(InvalidRequest, match="demands a call") as caught:
        engine_constraint.constraint(chat(tools=[TOOL], tool_choice=choice), MODEL, asked)
    assert caught.value.param == "guided_choice"


STRICT = {"type": "function", "function": {"name": "now", "strict": True}}


def test_strict_tools_become_a_grammar_that_lets_the_model_think_first() -> None:
    request = chat(tools=[STRICT])
    free = tool_use.optional_calls_form(request, MODEL)
    assert free is not None
    thinking, at_once = json.loads(told(request).grammar.definition)["format"]["elements"]
    assert at_once == free
    assert thinking["elements"][0] == structural_tags.fixed("<think>")
    assert told(request, prompt=OPENED).grammar == structural_tags.structural(
        structural_tags.behind_thinking(free, THINKING_MARKS[ReasoningParser.THINK])
    )


def test_a_form_of_the_answer_holds_for_strict_tools_as_for_others() -> None:
    asked = Grammar(kind=GrammarKind.JSON_OBJECT, definition="")
    assert told(chat(tools=[STRICT]), grammar=asked).grammar == told(chat(tools=[TOOL]), grammar=asked).grammar


def test_a_free_model_may_call_or_obey() -> None:
    request, asked = chat(tools=[TOOL]), Grammar(kind=GrammarKind.JSON_OBJECT, definition="", whitespace=" ")
    grammar = told(request, grammar=asked).grammar
    calls, text = json.loads(grammar.definition)["format"]["elements"]
    assert calls == tool_use.form(request, MODEL)
    assert text == {"type": "json_schema", "json_schema": {"type": "object"}}
    assert grammar.whitespace == " "


@pytest.mark.parametrize(("prompt", "opened"), [("assistant\n", False), (OPENED, True)])
def test_a_budget_becomes_a_limit(prompt: str, opened: bool) -> None:
    limit = ThinkingLimit(start_id=8, end_id=9, opened=opened, tokens=3)
    assert told(chat(thinking_token_budget=3), prompt).thinking == limit


def test_thinking_that_cannot_come_needs_no_limit() -> None:
    assert told(chat(thinking_token_budget=3), "assistant\n<think>\n\n</think>\n\n").thinking is None


TAG = {"type": "triggered_tags", "triggers": ["<a>"], "tags": []}
OLD_TAG = {"structures": [{"begin": "<a>", "schema": {}, "end": "</a>"}], "triggers": ["<a>"]}


@pytest.mark.parametrize(
    ("kind", "definition", "last"),
    [
        (GrammarKind.JSON_SCHEMA, '{"type": "object"}', {"type": "json_schema", "json_schema": {"type": "object"}}),
        (GrammarKind.JSON_OBJECT, "", {"type": "json_schema", "json_schema": {"type": "object"}}),
        (GrammarKind.REGEX, "a+", {"type": "regex", "pattern": "a+"}),
        (GrammarKind.CHOICE, '["x"]', {"type": "or", "elements": [{"type": "const_string", "value": "x"}]}),
        (GrammarKind.STRUCTURAL_TAG, json.dumps({"type": "structural_tag", "format": TAG}), TAG),
        (
            GrammarKind.STRUCTURAL_TAG,
            json.dumps(OLD_TAG),
            {
                **TAG,
                "tags": [
                    {
                        "type": "tag",
                        "begin": "<a>",
                        "content": {"type": "json_schema", "json_schema": {}},
                        "end": "</a>",
                    }
                ],
            },
        ),
    ],
)
def test_a_constraint_begins_where_the_thinking_ends(kind: GrammarKind, definition: str, last: Any) -> None:
    asked = Grammar(kind=kind, definition=definition, whitespace=" ?")
    grammar = told(chat(), OPENED, asked).grammar
    elements = json.loads(grammar.definition)["format"]["elements"]
    assert elements[0] == {"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": "</think>"}
    assert [element["type"] for element in elements[1:]] == ["regex", last["type"]]
    assert elements[2] == last
    assert grammar.whitespace == " ?"
    assert told(chat(), grammar=asked).grammar == asked


def test_a_free_grammar_cannot_begin_there_nor_stand_beside_calls() -> None:
    asked = Grammar(kind=GrammarKind.GRAMMAR, definition="x")
    for request, prompt in ((chat(), OPENED), (chat(tools=[TOOL]), "assistant\n")):
        with pytest.raises(InvalidRequest, match="reasoning_effort"):
            told(request, prompt, asked)


@pytest.mark.parametrize(
    ("kind", "definition", "thinks"),
    [
        (GrammarKind.CHOICE, '["no", "<think>so"]', False),
        (GrammarKind.CHOICE, '["no", "\\n<think>"]', False),
        (GrammarKind.CHOICE, '["no", "a <think> b"]', True),
        (GrammarKind.REGEX, r"\s?\<think>so", False),
        (GrammarKind.REGEX, "so", True),
        (GrammarKind.JSON_SCHEMA, '{"const": "<think>"}', True),
        (GrammarKind.GRAMMAR, "start: <think> /.*/", True),
    ],
)
def test_an_answer_that_was_asked_to_begin_with_the_mark_is_no_thinking(
    kind: GrammarKind, definition: str, thinks: bool
) -> None:
    asked = Constraint("guided_choice", Grammar(kind=kind, definition=definition))
    for prompt, expected in [("assistant\n", thinks), (OPENED, True)]:
        prepared = PrepareResponse(prompts=(PreparedPrompt(ids=(1,), text=prompt),))
        found = parsing_of(chat(), MODEL, prepared, asked)
        assert (found is not None and found.thinking is not None) == expected


def test_a_choice_beside_calls_that_spells_a_token_is_in_pieces_that_spell_none() -> None:
    asked = Grammar(kind=GrammarKind.CHOICE, definition='["yes", "<|im_end|>a<", "[THINK]"]')
    written = json.loads(told(chat(tools=[TOOL]), grammar=asked).grammar.definition)["format"]["elements"][1]
    yes, end, think = written["elements"]
    assert yes == structural_tags.fixed("yes")
    assert [piece["value"] for piece in end["elements"]] == ["<", "|im_end|>a<"]
    assert [piece["value"] for piece in think["elements"]] == ["[", "THINK]"]
