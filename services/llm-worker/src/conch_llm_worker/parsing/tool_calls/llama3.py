"""Calls as Llama 3.1 to 3.3 write them: JSON objects, alone or behind a mark, with semicolons between them.

    <|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}}

Only tools that were offered count: other answers may begin with an object, too.
"""

import re

from conch_contracts import tool_call_marks as marks
from conch_contracts.messages.answer_parsing import Calls
from conch_llm_worker.parsing.text_buffer import Steps, TextBuffer, next_visible, text_until
from conch_llm_worker.parsing.tool_calls.json_calls import objects
from conch_llm_worker.text.partial_words import Words

_PYTHON_TAG = Words((marks.PYTHON_TAG,))
_SEMICOLON = re.compile(r"\s*;?\s*")

MARKS = frozenset({marks.PYTHON_TAG})


def llama3(buffer: TextBuffer, calls: Calls) -> Steps[None]:
    """Read calls at the beginning of the answer, or behind `<|python_tag|>`."""
    if (yield from next_visible(buffer)) == "{":
        yield from objects(buffer, _SEMICOLON, calls.names)
    while (yield from text_until(buffer, _PYTHON_TAG)) is not None:
        yield from objects(buffer, _SEMICOLON, calls.names)
