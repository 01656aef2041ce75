"""Calls as Kimi K2 writes them: a section of calls, each with an id that holds the tool's name, and JSON.

    <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Paris"}
    <|tool_call_end|><|tool_calls_section_end|>

The ids go to the client as they are: the chat template writes them into later prompts, where the model expects them.
"""

import re

from conch_contracts import tool_call_marks as marks
from conch_contracts.messages.answer_parsing import Calls
from conch_llm_worker.parsing.text_buffer import NoCall, Steps, TextBuffer, attempt, text_until, until, word_ahead
from conch_llm_worker.parsing.tool_calls.json_calls import bare_arguments
from conch_llm_worker.text.partial_words import Words

_WORDS = Words((marks.KIMI_CALL, marks.KIMI_CALL_END, marks.KIMI_CALLS, marks.KIMI_CALLS_END))
_ID = re.compile(r"(?:functions\.)?([\w.-]+):\d+")

MARKS = frozenset({*_WORDS.words, marks.KIMI_ARGUMENTS})


def kimi_k2(buffer: TextBuffer, _: Calls) -> Steps[None]:
    """Read calls between Kimi's tokens; those that only surround calls are left out."""
    while (mark := (yield from text_until(buffer, _WORDS))) is not None:
        if mark == marks.KIMI_CALL:
            yield from attempt(buffer, _call(buffer))
        else:
            buffer.drop_taken()


def _call(buffer: TextBuffer) -> Steps[None]:
    call_id = (yield from until(buffer, marks.KIMI_ARGUMENTS)).strip()
    match = _ID.fullmatch(call_id)
    if match is None:
        raise NoCall
    yield from bare_arguments(buffer, match[1], call_id)
    buffer.drop((yield from word_ahead(buffer, marks.KIMI_CALL_END)))
