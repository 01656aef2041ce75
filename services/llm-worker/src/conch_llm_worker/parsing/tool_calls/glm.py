"""Calls as GLM writes them since 4.5: the tool's name, and each argument as a key and a value in tags of their own.

    <tool_call>get_weather
    <arg_key>city</arg_key>
    <arg_value>Paris</arg_value>
    </tool_call>

Later versions leave out the line breaks. Values that are text have no quotes; others are JSON.
"""

import re

import orjson

from conch_contracts import tool_call_marks as marks
from conch_contracts.messages.answer_parsing import Calls
from conch_llm_worker.parsing.text_buffer import (
    NoCall,
    Steps,
    TextBuffer,
    attempt,
    expect,
    skip_space,
    text_until,
    until,
    until_any,
)
from conch_llm_worker.parsing.tool_calls.tagged_values import Tags, tagged_value
from conch_llm_worker.text.partial_words import Words

_CALLS = Words((marks.TOOL_CALL,))
_BEHIND_NAME = Words((marks.ARG_KEY, marks.TOOL_CALL_END))
_VALUES = Tags(Words((marks.ARG_VALUE_END,)), marks.ARG_VALUE_END, padded=False)
_NAME = re.compile(r"[\w.-]+")

MARKS = frozenset(
    {marks.TOOL_CALL, marks.TOOL_CALL_END, marks.ARG_KEY, marks.ARG_KEY_END, marks.ARG_VALUE, marks.ARG_VALUE_END}
)


def glm(buffer: TextBuffer, calls: Calls) -> Steps[None]:
    """Read calls in tags."""
    while (yield from text_until(buffer, _CALLS)) is not None:
        yield from attempt(buffer, _call(buffer, calls))


def _call(buffer: TextBuffer, calls: Calls) -> Steps[None]:
    name, mark = yield from until_any(buffer, _BEHIND_NAME)
    name = name.strip()
    if _NAME.fullmatch(name) is None:
        raise NoCall
    buffer.begin_call(name)
    types = calls.typed_parameters.get(name, {})
    glue = "{"
    while mark == marks.ARG_KEY:
        key = (yield from until(buffer, marks.ARG_KEY_END)).strip()
        yield from skip_space(buffer)
        yield from expect(buffer, marks.ARG_VALUE)
        buffer.add_arguments(glue + orjson.dumps(key).decode() + ": ")
        yield from tagged_value(buffer, _VALUES, types.get(key, "string"))
        glue = ", "
        between, mark = yield from until_any(buffer, _BEHIND_NAME)
        if between.strip():
            raise NoCall
    buffer.add_arguments("{}" if glue == "{" else "}")
    buffer.end_call()
