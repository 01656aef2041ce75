"""Calls as a JSON list and nothing else, as xLAM writes them, and any model that a grammar makes call tools.

[{"name": "get_weather", "parameters": {"city": "Paris"}}]
"""

from conch_contracts.messages.answer_parsing import Calls
from conch_llm_worker.parsing.text_buffer import Steps, TextBuffer, attempt, next_visible, rest, skip_space
from conch_llm_worker.parsing.tool_calls.json_calls import call_list


def json_list(buffer: TextBuffer, calls: Calls) -> Steps[None]:
    """Read a list of calls at the beginning of the answer, and nothing but content behind it."""
    if (yield from next_visible(buffer)) == "[":
        yield from attempt(buffer, _list(buffer, calls))
    yield from rest(buffer)


def _list(buffer: TextBuffer, calls: Calls) -> Steps[None]:
    yield from skip_space(buffer)
    yield from call_list(buffer, calls.names)
