"""Gateway, engine and worker agree on demanded calls: what the grammar lets through is what the reader takes for calls.

The tokenizer is tiny-chat's. A random walk stands for an engine: it takes any token that the mask allows.
"""

import json
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tokenizers import Tokenizer

from conch_contracts.messages.generation import PreparedPrompt, SamplingParameters
from conch_contracts.messages.grammar import Grammar
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.records import ChatProfile, Route
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.constraints.structured_output import constraint_of
from conch_gateway.requests import engine_constraint, validation
from conch_gateway.requests.answer_parsing import parsing_of
from conch_guidance.compiler import GrammarCompiler
from conch_kit.errors import InvalidRequest
from conch_llm_worker.bodies.chat_message import MessageParts
from conch_llm_worker.parsing.answer_events import Content
from conch_llm_worker.parsing.answer_reader import AnswerReader
from testkit.gateway.fakes import route
from testkit.models.golden import FOLDER, load_golden

TOKENIZER = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
COMPILER = GrammarCompiler.of_folder(FOLDER, vocabulary=2048, kept=8)
END = 2041
CALL_BEGINS = {
    ToolCallParser.HERMES: "I look.\n<tool_call>",
    ToolCallParser.LLAMA3: "{",
    ToolCallParser.MISTRAL: "I look.[TOOL_CALLS]",
    ToolCallParser.QWEN3_CODER: "I look.\n<tool_call>",
    ToolCallParser.DEEPSEEK: "<｜tool▁calls▁begin｜>",
    ToolCallParser.GLM: "I look.\n<tool_call>",
    ToolCallParser.KIMI_K2: "<|tool_calls_section_begin|>",
    ToolCallParser.JSON: "[",
}
"""How a model begins a call in each form in which free calls can be held to a schema."""
THOUGHT = (*TOKENIZER.encode("Hm", add_special_tokens=False).ids, 2047)
"""A little thinking, and the mark behind it."""
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"$ref": "#/$defs/days"}},
    "required": ["city", "days"],
    "additionalProperties": False,
    "$defs": {"days": {"type": "integer", "minimum": 1, "maximum": 9}},
}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in (
        ("forecast", SCHEMA),
        ("now", {"type": "object", "properties": {}, "additionalProperties": False}),
    )
]
SAMPLING = SamplingParameters(max_tokens=1)
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
NAMED = {"type": "function", "function": {"name": "now"}}
MARK = "<think>\n"


def chat(**fields: Any) -> ChatCompletionRequest:
    return validation.chat({"messages": [{"role": "user", "content": "hi"}], "tools": TOOLS, **fields}).request


def prepared(prompt: str) -> PrepareResponse:
    return PrepareResponse(prompts=(PreparedPrompt(ids=(1,), text=prompt),))


def walked(grammar: Grammar, dice: random.Random, first: tuple[int, ...] = ()) -> str:
    """Return an answer that the mask allows: its first tokens, then any."""
    matcher, made = COMPILER.matcher(grammar), list(first)
    assert matcher.consume_tokens(made)
    while not (matcher.is_stopped() or (matcher.is_accepting() and dice.random() < 0.5)):
        mask = int.from_bytes(matcher.compute_bitmask(), "little")
        allowed = [id_ for id_ in range(2048) if mask >> id_ & 1 and id_ not in COMPILER.ending_ids]
        made.append(dice.choice(allowed))
        assert matcher.consume_token(made[-1])
    return TOKENIZER.decode(made, skip_special_tokens=False)


def encoded(text: str) -> tuple[int, ...]:
    return tuple(TOKENIZER.encode(text, add_special_tokens=False).ids)


def answer(
    request: ChatCompletionRequest, parser: ToolCallParser, dice: random.Random, prompt: str = "", begun: str = ""
) -> MessageParts:
    """Return what the reader makes of an answer that obeys the request's grammar, and begins as it is told."""
    model = route(chat=ChatProfile(reasoning=ReasoningParser.THINK, tool_calls=parser, takes_tools=True))
    constraint = engine_constraint.constraint(request, model, constraint_of(request))
    found = parsing_of(request, model, prepared(prompt))
    sampling = engine_constraint.constrained(SAMPLING, request, constraint, prepared(prompt), found)
    assert sampling.grammar is not None
    assert found is not None
    text = walked(sampling.grammar, dice, first=THOUGHT if prompt else encoded(begun))
    reader, parts = AnswerReader(found, lambda: "call_1"), MessageParts()
    for character in text:
        parts.add([Content(character)] if reader.plain else reader.feed(character))
    parts.add(reader.finish(cut=False))
    return parts


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parser", list(ToolCallParser))
@pytest.mark.parametrize(("choice", "names"), [("required", set(SCHEMAS)), (NAMED, {"now"})])
def test_whatever_the_grammar_allows_is_a_call_of_the_schema(
    parser: ToolCallParser, choice: Any, names: set[str], seed: int
) -> None:
    parts = answer(chat(tool_choice=choice), parser, random.Random(seed))
    assert "".join(parts.content) == ""
    assert parts.calls
    for call in parts.calls.values():
        assert call.name in names
        Draft202012Validator(SCHEMAS[call.name]).validate(json.loads("".join(call.arguments)))
    assert len(parts.calls) == 1 or choice == "required"


@pytest.mark.parametrize("parser", list(ToolCallParser))
def test_one_call_is_all_where_only_one_may_come(parser: ToolCallParser) -> None:
    request = chat(tool_choice="required", parallel_tool_calls=False)
    assert {len(answer(request, parser, random.Random(seed)).calls) for seed in range(6)} == {1}


def test_a_demanded_call_may_follow_thinking_that_the_prompt_has_opened() -> None:
    parts = answer(chat(tool_choice="required"), ToolCallParser.HERMES, random.Random(1), prompt=MARK)
    assert ("".join(parts.reasoning), "".join(parts.content)) == ("Hm", "")
    assert parts.calls


def test_a_free_model_calls_or_answers_in_the_form_that_is_asked_for() -> None:
    text = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    request = chat(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": text}})
    kinds = set()
    for seed in range(12):
        parts = answer(request, ToolCallParser.HERMES, random.Random(seed))
        kinds.add(bool(parts.calls))
        if not parts.calls:
            Draft202012Validator(text).validate(json.loads("".join(parts.content)))
    assert kinds == {True, False}


@pytest.mark.parametrize("name", ["tool", "tool-2", "tool-parallel"])
def test_what_the_model_writes_by_itself_is_allowed(name: str) -> None:
    item = load_golden().named(name)
    request = chat(tools=item.tools, tool_choice="required")
    model = route(chat=ChatProfile(tool_calls=ToolCallParser.HERMES, takes_tools=True))
    constraint = engine_constraint.constraint(request, model, None)
    assert constraint is not None
    matcher = COMPILER.matcher(constraint.grammar)
    assert matcher.consume_tokens([id_ for id_ in item.output_ids if id_ != END])
    assert matcher.is_accepting()


def strict(*, all_of_them: bool = True) -> list[dict[str, Any]]:
    return [{**tool, "function": {**tool["function"], "strict": all_of_them or tool is TOOLS[0]}} for tool in TOOLS]


def asked(parser: ToolCallParser, tools: list[dict[str, Any]]) -> tuple[ChatCompletionRequest, Route]:
    """Return a request with these tools, and a model that may think before it calls one."""
    profile = ChatProfile(reasoning=ReasoningParser.THINK, tool_calls=parser, takes_tools=True)
    return chat(tools=tools), route(chat=profile)


def free(parser: ToolCallParser, text: str, tools: list[dict[str, Any]]) -> bool:
    """Return whether a model that is free to call strict tools may write this as a whole answer."""
    request, model = asked(parser, tools)
    constraint, found = (
        engine_constraint.constraint(request, model, None),
        parsing_of(request, model, prepared("")),
    )
    grammar = engine_constraint.constrained(SAMPLING, request, constraint, prepared(""), found).grammar
    assert grammar is not None
    COMPILER.check(grammar, foreign=False)
    matcher, ids = COMPILER.matcher(grammar), list(encoded(text))
    return matcher.validate_tokens(ids) == len(ids) and matcher.consume_tokens(ids) and matcher.is_accepting()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("parser", "begun"), CALL_BEGINS.items())
def test_a_free_call_of_strict_tools_obeys_their_schemas(parser: ToolCallParser, begun: str, seed: int) -> None:
    parts = answer(chat(tools=strict()), parser, random.Random(seed), begun=begun)
    assert parts.calls
    for call in parts.calls.values():
        Draft202012Validator(SCHEMAS[call.name]).validate(json.loads("".join(call.arguments)))


GOOD, BAD = '{"city": "Rome", "days": 2}', '{"city": "Oslo", "days": 2}'


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        (ToolCallParser.HERMES, 'I look.\n<tool_call>\n{"name": "forecast", "arguments": HERE}\n</tool_call>'),
        (ToolCallParser.LLAMA3, '{"name": "forecast", "parameters": HERE}'),
        (ToolCallParser.LLAMA3, '<|python_tag|>{"name": "forecast", "parameters": HERE}'),
        (ToolCallParser.LLAMA3, 'I look.<|python_tag|>{"name": "forecast", "parameters": HERE}'),
        (ToolCallParser.MISTRAL, '[TOOL_CALLS] [{"name": "forecast", "arguments": HERE}]'),
        (ToolCallParser.MISTRAL, "Well.[TOOL_CALLS]forecastHERE"),
        (ToolCallParser.MISTRAL, "[TOOL_CALLS]forecast[ARGS]HERE"),
        (ToolCallParser.MISTRAL, "[TOOL_CALLS]forecast[CALL_ID]abcdef123[ARGS]HERE"),
        (
            ToolCallParser.DEEPSEEK,
            "I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>forecast\n```json\nHERE\n```"
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
        (
            ToolCallParser.DEEPSEEK,
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>"
            "forecast<｜tool▁sep｜>HERE<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
        (ToolCallParser.DEEPSEEK, "<｜tool▁call▁begin｜>forecast<｜tool▁sep｜>HERE<｜tool▁call▁end｜>"),
        (
            ToolCallParser.KIMI_K2,
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}"
            "<|tool_call_end|><|tool_call_begin|>functions.forecast:1<|tool_call_argument_begin|>HERE<|tool_call_end|>"
            "<|tool_calls_section_end|>",
        ),
        (ToolCallParser.JSON, '[{"name": "forecast", "parameters": HERE}]'),
    ],
)
def test_each_way_of_writing_a_free_call_is_open_to_good_arguments_alone(parser: ToolCallParser, text: str) -> None:
    assert free(parser, text.replace("HERE", GOOD), strict())
    assert free(parser, "<think>\nHm.\n</think>\n\n" + text.replace("HERE", GOOD), strict())
    assert not free(parser, text.replace("HERE", BAD), strict())
    assert not free(parser, text.replace("HERE", GOOD).replace("forecast", "unknown"), strict())


@pytest.mark.parametrize("parser", CALL_BEGINS)
@pytest.mark.parametrize(
    "text", ["", "\n", "Hello.", "a < b {c} [d]\n", "<b>你好 🙂</b>", "<think>\n\n</think>\n\nHi."]
)
def test_strict_tools_leave_text_free(parser: ToolCallParser, text: str) -> None:
    assert free(parser, text, strict())


def test_beside_a_strict_tool_another_one_takes_any_object() -> None:
    mixed = strict(all_of_them=False)
    assert free(ToolCallParser.JSON, '[{"name": "now", "parameters": {"zone": [1]}}]', mixed)
    assert not free(ToolCallParser.JSON, '[{"name": "forecast", "parameters": {"zone": [1]}}]', mixed)
    assert not free(ToolCallParser.JSON, '[{"name": "now", "parameters": [1]}]', mixed)


@pytest.mark.parametrize("name", ["tool", "tool-2", "tool-parallel", "tool-result", "tool-not-needed"])
def test_what_the_model_writes_by_itself_is_allowed_with_strict_tools(name: str) -> None:
    item = load_golden().named(name)
    tools = [{**tool, "function": {**tool["function"], "strict": True}} for tool in item.tools or ()]
    assert free(ToolCallParser.HERMES, item.text, tools)


NOTE = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "Any."},
        "tag": {"type": "string", "pattern": "^[a-z]+$"},
        "days": {"$ref": "#/$defs/days"},
    },
    "required": ["text", "days"],
    "$defs": SCHEMA["$defs"],
}
NOTES = [{"type": "function", "function": {"name": "note", "parameters": NOTE, "strict": True}}]
CODER_NOTE = "<tool_call>\n<function=note>\n{}</function>\n</tool_call>"
CODER_VALUE = "<parameter={}>\n{}\n</parameter>\n"
GLM_NOTE = "<tool_call>note\n{}</tool_call>"
GLM_VALUE = "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n"


@pytest.mark.parametrize(
    ("parser", "call", "value"),
    [(ToolCallParser.QWEN3_CODER, CODER_NOTE, CODER_VALUE), (ToolCallParser.GLM, GLM_NOTE, GLM_VALUE)],
)
@pytest.mark.parametrize(
    ("arguments", "good"),
    [
        ({"text": "Any\ntext, 3 <b>", "days": "7"}, True),
        ({"text": "", "tag": '"abc"', "days": "7"}, True),
        ({"text": "a", "days": "77"}, False),
        ({"text": "a", "tag": "abc", "days": "7"}, False),
        ({"text": "a"}, False),
        ({"text": "a", "days": "7", "more": "1"}, False),
    ],
)
def test_free_calls_whose_text_has_no_quotes_obey_too(
    parser: ToolCallParser, call: str, value: str, arguments: dict[str, str], good: bool
) -> None:
    text = call.format("".join(value.format(*one) for one in arguments.items()))
    assert free(parser, "Well.\n" + text, NOTES) is good
    if good:
        found = parsing_of(*asked(parser, NOTES), prepared(""))
        assert found is not None
        reader, parts = AnswerReader(found, lambda: "call_1"), MessageParts()
        parts.add([*reader.feed(text), *reader.finish(cut=False)])
        Draft202012Validator(NOTE).validate(json.loads("".join(parts.calls[0].arguments)))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}}]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a>b": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
    ],
)
@pytest.mark.parametrize("parser", [ToolCallParser.QWEN3_CODER, ToolCallParser.GLM])
def test_parameters_that_are_no_list_are_refused_where_text_has_no_quotes(parser: ToolCallParser, schema: Any) -> None:
    request, model = asked(
        parser, [{"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}]
    )
    with pytest.raises(InvalidRequest, match="more than a list of properties") as caught:
        engine_constraint.constraint(request, model, None)
    assert caught.value.param == "tools"
