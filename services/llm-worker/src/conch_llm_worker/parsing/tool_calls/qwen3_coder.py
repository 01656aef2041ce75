"""Calls as Qwen 3 Coder writes them: each parameter in tags of its own, and its value without quotes.

    <tool_call>
    <function=get_weather>
    <parameter=city>
    Paris
    </parameter>
    </function>
    </tool_call>

The arguments become JSON on the way: a value is text unless the tool's schema gives the parameter another type.
"""

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
    word_ahead,
)
from conch_llm_worker.parsing.tool_calls.tagged_values import Tags, tagged_value
from conch_llm_worker.text.partial_words import Words

_OPENING = Words((marks.TOOL_CALL, marks.FUNCTION))
_VALUES = Tags(Words((marks.PARAMETER_END, marks.FUNCTION_END)), marks.PARAMETER_END, padded=True)

MARKS = frozenset({marks.TOOL_CALL, marks.TOOL_CALL_END})


def qwen3_coder(buffer: TextBuffer, calls: Calls) -> Steps[None]:
    """Read calls in tags."""
    while (mark := (yield from text_until(buffer, _OPENING))) is not None:
        yield from attempt(buffer, _call(buffer, calls, named=mark == marks.FUNCTION))


def _call(buffer: TextBuffer, calls: Calls, *, named: bool) -> Steps[None]:
    if not named:
        yield from skip_space(buffer)
        yield from expect(buffer, marks.FUNCTION)
    name = (yield from until(buffer, ">")).strip()
    if not name or "\n" in name:
        raise NoCall
    buffer.begin_call(name)
    types = calls.typed_parameters.get(name, {})
    glue = "{"
    while (yield from word_ahead(buffer, marks.PARAMETER)):
        yield from skip_space(buffer)
        yield from expect(buffer, marks.PARAMETER)
        key = (yield from until(buffer, ">")).strip()
        buffer.add_arguments(glue + orjson.dumps(key).decode() + ": ")
        yield from tagged_value(buffer, _VALUES, types.get(key, "string"))
        glue = ", "
    yield from skip_space(buffer)
    yield from expect(buffer, marks.FUNCTION_END)
    buffer.add_arguments("{}" if glue == "{" else "}")
    buffer.end_call()
    buffer.drop((yield from word_ahead(buffer, marks.TOOL_CALL_END)))
