"""Calls as Hermes, Qwen 2.5 and Qwen 3 write them: a JSON object for each call, between marks.

<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>
"""

from conch_contracts import tool_call_marks as marks
from conch_contracts.messages.answer_parsing import Calls
from conch_llm_worker.parsing.text_buffer import Steps, TextBuffer, attempt, skip_space, text_until, word_ahead
from conch_llm_worker.parsing.tool_calls.json_calls import call_object
from conch_llm_worker.text.partial_words import Words

_TOOL_CALL = Words((marks.TOOL_CALL,))

MARKS = frozenset({marks.TOOL_CALL, marks.TOOL_CALL_END})


def hermes(buffer: TextBuffer, _: Calls) -> Steps[None]:
    """Read calls in `<tool_call>` marks."""
    while (yield from text_until(buffer, _TOOL_CALL)) is not None:
        yield from attempt(buffer, _call(buffer))


def _call(buffer: TextBuffer) -> Steps[None]:
    yield from skip_space(buffer)
    yield from call_object(buffer)
    buffer.drop((yield from word_ahead(buffer, marks.TOOL_CALL_END)))
