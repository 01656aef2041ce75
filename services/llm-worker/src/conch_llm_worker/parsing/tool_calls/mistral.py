"""Calls as Mistral's models write them: a list of JSON objects behind a mark, in later versions a name and arguments.

[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}]
[TOOL_CALLS]get_weather[CALL_ID]Ab1Cd2Ef3[ARGS]{"city": "Paris"}
"""

import re

from conch_contracts import tool_call_marks as marks
from conch_contracts.messages.answer_parsing import Calls
from conch_llm_worker.parsing.text_buffer import (
    NoCall,
    Steps,
    TextBuffer,
    attempt,
    next_visible,
    skip_space,
    text_until,
    until,
)
from conch_llm_worker.parsing.tool_calls.json_calls import bare_arguments, call_list
from conch_llm_worker.text.partial_words import Words

_CALLS = Words((marks.MISTRAL_CALLS,))
_NAME = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\s*\w*\s*)?(?:\[ARGS\]\s*)?")

MARKS = frozenset({marks.MISTRAL_CALLS, marks.MISTRAL_ID, marks.MISTRAL_ARGUMENTS})


def mistral(buffer: TextBuffer, _: Calls) -> Steps[None]:
    """Read `[TOOL_CALLS]` and a list, or `[TOOL_CALLS]`, a name and its arguments."""
    while (yield from text_until(buffer, _CALLS)) is not None:
        is_list = (yield from next_visible(buffer)) == "["
        yield from attempt(buffer, _list(buffer) if is_list else _named_call(buffer))


def _list(buffer: TextBuffer) -> Steps[None]:
    yield from skip_space(buffer)
    yield from call_list(buffer)


def _named_call(buffer: TextBuffer) -> Steps[None]:
    """Read `name{…}`, in later versions with the call's id and a mark before its arguments."""
    header = yield from until(buffer, "{")
    match = _NAME.fullmatch(header)
    if match is None:
        raise NoCall
    buffer.put_back("{")
    yield from bare_arguments(buffer, match[1])
