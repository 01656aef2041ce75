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

_MARKS = Words((marks.TOOL_CALL, marks.FUNCTION))
_VALUES = Tags(Words((marks.PARAMETER_END, marks.FUNCTION_END)), marks.PARAMETER_END, padded=True)


def qwen3_coder(tape: TextBuffer, calls: Calls) -> Steps[None]:
    """Read calls in tags."""
    while (mark := (yield from text_until(tape, _MARKS))) is not None:
        yield from attempt(tape, _call(tape, calls, named=mark == marks.FUNCTION))


def _call(tape: TextBuffer, calls: Calls, *, named: bool) -> Steps[None]:
    if not named:
        yield from skip_space(tape)
        yield from expect(tape, marks.FUNCTION)
    name = (yield from until(tape, ">")).strip()
    if not name or "\n" in name:
        raise NoCall
    tape.begin_call(name)
    types = calls.typed_parameters.get(name, {})
    glue = "{"
    while (yield from word_ahead(tape, marks.PARAMETER)):
        yield from skip_space(tape)
        yield from expect(tape, marks.PARAMETER)
        key = (yield from until(tape, ">")).strip()
        tape.add_arguments(glue + orjson.dumps(key).decode() + ": ")
        yield from tagged_value(tape, _VALUES, types.get(key, "string"))
        glue = ", "
    yield from skip_space(tape)
    yield from expect(tape, marks.FUNCTION_END)
    tape.add_arguments("{}" if glue == "{" else "}")
    tape.end_call()
    tape.drop((yield from word_ahead(tape, marks.TOOL_CALL_END)))
