"""Calls as DeepSeek's models write them: between tokens of their own, the name before the arguments.

V3 and R1 write `function<｜tool▁sep｜>name`, a line break and the arguments in a code block; since V3.1 it is
`name<｜tool▁sep｜>` and the arguments.
"""

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
from conch_llm_worker.parsing.tool_calls.json_calls import bare_arguments
from conch_llm_worker.text.partial_words import Words

_WORDS = Words((marks.DEEPSEEK_CALLS, marks.DEEPSEEK_CALL, marks.DEEPSEEK_CALL_END, marks.DEEPSEEK_CALLS_END))

MARKS = frozenset({*_WORDS.words, marks.DEEPSEEK_SEPARATOR})


def deepseek(buffer: TextBuffer, _: Calls) -> Steps[None]:
    """Read calls between DeepSeek's tokens; those that only surround calls are left out."""
    while (mark := (yield from text_until(buffer, _WORDS))) is not None:
        if mark == marks.DEEPSEEK_CALL:
            yield from attempt(buffer, _call(buffer))
        else:
            buffer.drop_taken()


def _call(buffer: TextBuffer) -> Steps[None]:
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
