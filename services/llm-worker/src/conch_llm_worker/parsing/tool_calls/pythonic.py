"""Calls as a list of Python's, as Llama 4, the small Llama 3.2 and ToolACE write them.

    [get_weather(city='Paris', days=2), now()]

The arguments become JSON on the way. Only tools that were offered count: other answers may begin with a bracket, too.
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
    next_visible,
    rest,
    skip_space,
    until,
    word_ahead,
)
from conch_llm_worker.parsing.tool_calls.python_values import python_value

_PARAMETER = re.compile(r"[^\W\d]\w*")

MARKS = frozenset({marks.PYTHON_START, marks.PYTHON_END})


def pythonic(buffer: TextBuffer, calls: Calls) -> Steps[None]:
    """Read a list of calls at the beginning of the answer."""
    if (yield from next_visible(buffer)) in ("[", "<"):
        yield from attempt(buffer, _calls(buffer, calls))
    yield from rest(buffer)


def _calls(buffer: TextBuffer, calls: Calls) -> Steps[None]:
    if (yield from skip_space(buffer)) == "<":
        yield from expect(buffer, marks.PYTHON_START)
        yield from skip_space(buffer)
    yield from expect(buffer, "[")
    while True:
        yield from _call(buffer, calls)
        if (yield from skip_space(buffer)) != ",":
            break
        buffer.take(1)
    yield from expect(buffer, "]")
    buffer.drop_taken()
    buffer.drop((yield from word_ahead(buffer, marks.PYTHON_END)))


def _call(buffer: TextBuffer, calls: Calls) -> Steps[None]:
    name = (yield from until(buffer, "(")).strip()
    if name not in calls.names:
        raise NoCall
    buffer.begin_call(name)
    glue = "{"
    while (yield from skip_space(buffer)) != ")":
        key = (yield from until(buffer, "=")).strip()
        if _PARAMETER.fullmatch(key) is None:
            raise NoCall
        buffer.add_arguments(glue + orjson.dumps(key).decode() + ": ")
        yield from python_value(buffer, buffer.add_arguments)
        glue = ", "
        if (yield from skip_space(buffer)) == ",":
            buffer.take(1)
        elif not buffer.text.startswith(")"):
            raise NoCall
    buffer.take(1)
    buffer.add_arguments("{}" if glue == "{" else "}")
    buffer.end_call()
