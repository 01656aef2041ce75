"""Pure: in which forms a model thinks and calls tools: what the ModelDeployment says, else what its template shows.

A chat template writes earlier turns as the model itself wrote them, so it holds the marks that the model was trained
to use. A template whose marks nobody here knows shows nothing, and the model's words stay content.

In which form the template takes messages is only passed on: where nothing is said, the tokenizer sees it.
"""

import re

from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.records import ChatProfile, ModelKind
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from conch_operator.state import SourceFacts

_TOOLS = re.compile(r"{[{%][^}]*\btools\b")
_CALLS: tuple[tuple[tuple[str, ...], ToolCallParser], ...] = (
    (("<｜tool▁call▁begin｜>",), ToolCallParser.DEEPSEEK),
    (("[TOOL_CALLS]",), ToolCallParser.MISTRAL),
    (("<function=", "<parameter="), ToolCallParser.QWEN3_CODER),
    (("<|tool_call_begin|>", "<|tool_call_argument_begin|>"), ToolCallParser.KIMI_K2),
    (("<tool_call>", "<arg_key>"), ToolCallParser.GLM),
    (("<tool_call>",), ToolCallParser.HERMES),
    (("[func_name1(",), ToolCallParser.PYTHONIC),
    (("<|start_header_id|>", '"parameters"'), ToolCallParser.LLAMA3),
    (("<|header_start|>", '"parameters"'), ToolCallParser.LLAMA3),
)
"""Marks that are all in a template, and what they show; the first row that fits counts."""
_THINKING: tuple[tuple[str, ReasoningParser], ...] = (
    ("[THINK]", ReasoningParser.MISTRAL),
    ("<seed:think>", ReasoningParser.SEED),
    ("Here is my thought process:", ReasoningParser.GRANITE),
    ("</think>", ReasoningParser.THINK),
)


def chat_profile(spec: ModelSpec, facts: SourceFacts) -> ChatProfile:
    """Return the profile that goes into a model's route; that of an encoder says only how it reads messages."""
    content_format = spec.tokenizer.content_format
    if spec.kind is not ModelKind.LLM:
        return ChatProfile(content_format=content_format)
    shown, said = facts.chat if facts.chat_template is None else shown_by(facts.chat_template), spec.generation
    return ChatProfile(
        reasoning=shown.reasoning if said.reasoning_parser is None else said.reasoning_parser,
        tool_calls=shown.tool_calls if said.tool_call_parser is None else said.tool_call_parser,
        takes_tools=shown.takes_tools,
        content_format=content_format,
    )


def shown_by(template: str) -> ChatProfile:
    """Return what a chat template shows."""
    return ChatProfile(
        reasoning=next((parser for mark, parser in _THINKING if mark in template), ReasoningParser.NONE),
        tool_calls=next(
            (parser for marks, parser in _CALLS if all(mark in template for mark in marks)), ToolCallParser.NONE
        ),
        takes_tools=_TOOLS.search(template) is not None,
    )
