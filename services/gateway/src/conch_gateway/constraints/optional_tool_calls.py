"""Text in which a model calls tools when it likes to, while the arguments of its calls obey their schemas; pure.

What begins a call in the model's own form can go on in no other way than as a call of a tool that was offered: with
arguments that obey the schema of a strict tool, and with some JSON object for any other. Where no mark begins a call,
its first character does, and text has to begin with another one.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from conch_contracts import tool_call_marks as marks
from conch_contracts.openai.tools import Tool
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.constraints import tagged_tool_calls
from conch_gateway.constraints.structural_tags import (
    Format,
    either,
    fixed,
    in_order,
    matching,
    separated,
    tag,
    text_with,
)
from conch_gateway.constraints.tool_call_grammar import (
    HERMES,
    JSON_LIST,
    Form,
    arguments_of,
    call_in,
    calls_in,
    calls_of,
)

TAGGED_FORMS = frozenset({ToolCallParser.QWEN3_CODER, ToolCallParser.GLM})
"""The forms that write text without quotes, so that only the schema tells it from a number."""

_ANY_OBJECT: dict[str, object] = {"type": "object"}
_SPACE = matching(r"\s*")
_MISTRAL_LIST = Form("", "", ", ", first="[", last="]")


def text_with_calls(tools: Sequence[Tool], parser: ToolCallParser, *, only_one: bool) -> Format:
    """Return the format of an answer that may call these tools, if it likes; raises InvalidRequest."""
    held = tools if parser in TAGGED_FORMS else list(map(_as_strict_as_asked, tools))
    return _FORMS[parser](held, only_one=only_one)


def _as_strict_as_asked(tool: Tool) -> Tool:
    if tool.function.strict:
        return tool
    return tool.model_copy(update={"function": tool.function.model_copy(update={"parameters": _ANY_OBJECT})})


def _hermes(tools: Sequence[Tool], *, only_one: bool) -> Format:
    return text_with([call_in(HERMES, tool) for tool in tools], marks.TOOL_CALL, only_one=only_one)


def _llama3(tools: Sequence[Tool], *, only_one: bool) -> Format:
    calls = calls_of(tools, ToolCallParser.LLAMA3, only_one=only_one)
    tagged = tag(marks.PYTHON_TAG, calls, "")
    # Nothing but a tag begins with "<|", however its tokens are cut.
    begun = matching(r"<[^|]|[^\s{<]")
    text = in_order(begun, text_with([tagged], marks.PYTHON_TAG, only_one=True))
    return either(calls, in_order(_SPACE, either(tagged, text)), _SPACE)


def _qwen3_coder(tools: Sequence[Tool], *, only_one: bool) -> Format:
    return text_with(tagged_tool_calls.qwen3_coder(tools), marks.TOOL_CALL, only_one=only_one)


def _glm(tools: Sequence[Tool], *, only_one: bool) -> Format:
    return text_with(tagged_tool_calls.glm(tools), marks.TOOL_CALL, only_one=only_one)


def _mistral(tools: Sequence[Tool], *, only_one: bool) -> Format:
    calls = calls_in(_MISTRAL_LIST, tools, only_one=only_one)
    tags = [tag(marks.MISTRAL_CALLS, in_order(matching(" ?"), calls), "")]
    for tool in tools:
        begin, arguments = marks.MISTRAL_CALLS + tool.function.name, arguments_of(tool)
        with_id = in_order(matching("[a-zA-Z0-9]{9}"), fixed(marks.MISTRAL_ARGUMENTS), arguments)
        tags.append(tag(begin, arguments, ""))
        tags.append(tag(begin + marks.MISTRAL_ARGUMENTS, arguments, ""))
        tags.append(tag(begin + marks.MISTRAL_ID, with_id, ""))
    return text_with(tags, marks.MISTRAL_CALLS, only_one=only_one)


def _deepseek(tools: Sequence[Tool], *, only_one: bool) -> Format:
    fenced = [
        tag(
            f"{marks.DEEPSEEK_CALL}function{marks.DEEPSEEK_SEPARATOR}{tool.function.name}\n```json\n",
            arguments_of(tool),
            f"\n```{marks.DEEPSEEK_CALL_END}",
        )
        for tool in tools
    ]
    bare = [
        tag(
            f"{marks.DEEPSEEK_CALL}{tool.function.name}{marks.DEEPSEEK_SEPARATOR}",
            arguments_of(tool),
            marks.DEEPSEEK_CALL_END,
        )
        for tool in tools
    ]
    several = separated([{**one, "end": ""} for one in bare], marks.DEEPSEEK_CALL_END, only_one=only_one)
    calls = either(separated(fenced, "\n", only_one=only_one), in_order(several, fixed(marks.DEEPSEEK_CALL_END)))
    tags = [tag(marks.DEEPSEEK_CALLS, calls, marks.DEEPSEEK_CALLS_END), *fenced, *bare]
    return text_with(tags, marks.DEEPSEEK_CALLS, marks.DEEPSEEK_CALL, only_one=only_one)


def _kimi_k2(tools: Sequence[Tool], *, only_one: bool) -> Format:
    calls = [
        tag(
            f"{marks.KIMI_CALL}functions.{tool.function.name}:",
            in_order(matching("[0-9]{1,4}"), fixed(marks.KIMI_ARGUMENTS), arguments_of(tool)),
            marks.KIMI_CALL_END,
        )
        for tool in tools
    ]
    several = separated([{**one, "end": ""} for one in calls], marks.KIMI_CALL_END, only_one=only_one)
    tags = [tag(marks.KIMI_CALLS, in_order(several, fixed(marks.KIMI_CALL_END)), marks.KIMI_CALLS_END), *calls]
    return text_with(tags, marks.KIMI_CALLS, marks.KIMI_CALL, only_one=only_one)


def _json(tools: Sequence[Tool], *, only_one: bool) -> Format:
    return either(calls_in(JSON_LIST, tools, only_one=only_one), matching(r"\s*([^\s\[](.|\n)*)?"))


class _Write(Protocol):
    def __call__(self, tools: Sequence[Tool], *, only_one: bool) -> Format: ...


_FORMS: Mapping[ToolCallParser, _Write] = MappingProxyType(
    {
        ToolCallParser.HERMES: _hermes,
        ToolCallParser.LLAMA3: _llama3,
        ToolCallParser.MISTRAL: _mistral,
        ToolCallParser.QWEN3_CODER: _qwen3_coder,
        ToolCallParser.DEEPSEEK: _deepseek,
        ToolCallParser.GLM: _glm,
        ToolCallParser.KIMI_K2: _kimi_k2,
        ToolCallParser.JSON: _json,
    }
)
OPTIONAL_CALL_FORMS = frozenset(_FORMS)
"""The forms in which calls are enforced while the model stays free to make none."""
