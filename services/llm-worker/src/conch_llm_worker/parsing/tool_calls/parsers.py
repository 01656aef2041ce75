"""The forms in which models write calls of tools; each parser reads the answer to its end."""

import re
from collections.abc import Callable, Mapping

from conch_contracts import tool_call_marks as marks
from conch_contracts.messages.answer_parsing import Calls
from conch_contracts.tool_call_marks import ToolCallParser
from conch_llm_worker.parsing.text_buffer import (
    NoCall,
    Steps,
    TextBuffer,
    attempt,
    expect,
    next_visible,
    rest,
    skip_space,
    text_until,
    until,
    word_ahead,
)
from conch_llm_worker.parsing.tool_calls import glm, kimi, pythonic, qwen3_coder
from conch_llm_worker.parsing.tool_calls.json_calls import bare_arguments, call_list, call_object, objects
from conch_llm_worker.text.partial_words import Words

_TOOL_CALL = Words((marks.TOOL_CALL,))
_PYTHON_TAGS = Words((marks.PYTHON_TAG,))
_MISTRAL_MARKS = Words((marks.MISTRAL_CALLS,))
_DEEPSEEK_MARKS = Words((marks.DEEPSEEK_CALLS, marks.DEEPSEEK_CALL, marks.DEEPSEEK_CALL_END, marks.DEEPSEEK_CALLS_END))
_SEMICOLON = re.compile(r"\s*;?\s*")
_MISTRAL_NAME = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\s*\w*\s*)?(?:\[ARGS\]\s*)?")

SPECIAL_MARKS: Mapping[ToolCallParser, frozenset[str]] = {
    ToolCallParser.HERMES: frozenset({marks.TOOL_CALL, marks.TOOL_CALL_END}),
    ToolCallParser.QWEN3_CODER: frozenset({marks.TOOL_CALL, marks.TOOL_CALL_END}),
    ToolCallParser.LLAMA3: frozenset({marks.PYTHON_TAG}),
    ToolCallParser.MISTRAL: frozenset({marks.MISTRAL_CALLS, marks.MISTRAL_ID, marks.MISTRAL_ARGUMENTS}),
    ToolCallParser.DEEPSEEK: frozenset({*_DEEPSEEK_MARKS.words, marks.DEEPSEEK_SEPARATOR}),
    ToolCallParser.GLM: glm.MARKS,
    ToolCallParser.KIMI_K2: kimi.MARKS,
    ToolCallParser.PYTHONIC: pythonic.MARKS,
}
"""Tokens that a parser must see although tokenizers may call them special, and special tokens are left out."""


def hermes(buffer: TextBuffer, _: Calls) -> Steps[None]:
    """Read calls in `<tool_call>` marks."""
    while (yield from text_until(buffer, _TOOL_CALL)) is not None:
        yield from attempt(buffer, _marked_object(buffer))


def llama3(buffer: TextBuffer, calls: Calls) -> Steps[None]:
    """Read calls at the beginning of the answer, or behind `<|python_tag|>`; only tools that were offered count."""
    if (yield from next_visible(buffer)) == "{":
        yield from objects(buffer, _SEMICOLON, calls.names)
    while (yield from text_until(buffer, _PYTHON_TAGS)) is not None:
        yield from objects(buffer, _SEMICOLON, calls.names)


def mistral(buffer: TextBuffer, _: Calls) -> Steps[None]:
    """Read `[TOOL_CALLS]` and a list, or `[TOOL_CALLS]`, a name and its arguments."""
    while (yield from text_until(buffer, _MISTRAL_MARKS)) is not None:
        is_list = (yield from next_visible(buffer)) == "["
        yield from attempt(buffer, _list_behind_space(buffer) if is_list else _mistral_call(buffer))


def deepseek(buffer: TextBuffer, _: Calls) -> Steps[None]:
    """Read calls between DeepSeek's tokens; those that only surround calls are left out."""
    while (mark := (yield from text_until(buffer, _DEEPSEEK_MARKS))) is not None:
        if mark == marks.DEEPSEEK_CALL:
            yield from attempt(buffer, _deepseek_call(buffer))
        else:
            buffer.drop_taken()


def json_list(buffer: TextBuffer, calls: Calls) -> Steps[None]:
    """Read a list of calls, and nothing but content behind it."""
    if (yield from next_visible(buffer)) == "[":
        yield from attempt(buffer, _list_behind_space(buffer, calls))
    yield from rest(buffer)


FAMILIES: Mapping[ToolCallParser, Callable[[TextBuffer, Calls], Steps[None]]] = {
    ToolCallParser.HERMES: hermes,
    ToolCallParser.LLAMA3: llama3,
    ToolCallParser.MISTRAL: mistral,
    ToolCallParser.QWEN3_CODER: qwen3_coder.qwen3_coder,
    ToolCallParser.DEEPSEEK: deepseek,
    ToolCallParser.GLM: glm.glm,
    ToolCallParser.KIMI_K2: kimi.kimi_k2,
    ToolCallParser.PYTHONIC: pythonic.pythonic,
    ToolCallParser.JSON: json_list,
}


def _marked_object(buffer: TextBuffer) -> Steps[None]:
    yield from skip_space(buffer)
    yield from call_object(buffer)
    buffer.drop((yield from word_ahead(buffer, marks.TOOL_CALL_END)))


def _list_behind_space(buffer: TextBuffer, calls: Calls | None = None) -> Steps[None]:
    yield from skip_space(buffer)
    yield from call_list(buffer, None if calls is None else calls.names)


def _mistral_call(buffer: TextBuffer) -> Steps[None]:
    """Read `name{…}`, in later versions with the call's id and a mark before its arguments."""
    header = yield from until(buffer, "{")
    match = _MISTRAL_NAME.fullmatch(header)
    if match is None:
        raise NoCall
    buffer.put_back("{")
    yield from bare_arguments(buffer, match[1])


def _deepseek_call(buffer: TextBuffer) -> Steps[None]:
    """Read `function<sep>name`, a line break and arguments in a code block; since V3.1 `name<sep>` and arguments."""
    name = (yield from until(buffer, marks.DEEPSEEK_SEPARATOR)).strip()
    fenced = (yield from skip_space(buffer)) != "{"
    if fenced:
        name = (yield from until(buffer, "\n")).strip()
        yield from skip_space(buffer)
        yield from expect(buffer, "```json")
    if not name:
        raise NoCall
    yield from bare_arguments(buffer, name)
    if fenced:
        buffer.drop((yield from word_ahead(buffer, "```")))
