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


def pythonic(tape: TextBuffer, calls: Calls) -> Steps[None]:
    """Read a list of calls at the beginning of the answer."""
    if (yield from next_visible(tape)) in ("[", "<"):
        yield from attempt(tape, _calls(tape, calls))
    yield from rest(tape)


def _calls(tape: TextBuffer, calls: Calls) -> Steps[None]:
    if (yield from skip_space(tape)) == "<":
        yield from expect(tape, marks.PYTHON_START)
        yield from skip_space(tape)
    yield from expect(tape, "[")
    while True:
        yield from _call(tape, calls)
        if (yield from skip_space(tape)) != ",":
            break
        tape.take(1)
    yield from expect(tape, "]")
    tape.forget_raw()
    tape.drop((yield from word_ahead(tape, marks.PYTHON_END)))


def _call(tape: TextBuffer, calls: Calls) -> Steps[None]:
    name = (yield from until(tape, "(")).strip()
    if name not in calls.names:
        raise NoCall
    tape.begin_call(name)
    glue = "{"
    while (yield from skip_space(tape)) != ")":
        key = (yield from until(tape, "=")).strip()
        if _PARAMETER.fullmatch(key) is None:
            raise NoCall
        tape.add_arguments(glue + orjson.dumps(key).decode() + ": ")
        yield from python_value(tape, tape.add_arguments)
        glue = ", "
        if (yield from skip_space(tape)) == ",":
            tape.take(1)
        elif not tape.text.startswith(")"):
            raise NoCall
    tape.take(1)
    tape.add_arguments("{}" if glue == "{" else "}")
    tape.end_call()
