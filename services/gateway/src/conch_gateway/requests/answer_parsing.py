"""How a worker takes an answer apart: what begins its thinking, and in which form it calls tools; pure."""

import json

from conch_contracts.messages.answer_parsing import Parsing, Thinking
from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.sampling import SamplingFields
from conch_contracts.records import Route
from conch_contracts.thinking_marks import THINKING_MARKS
from conch_gateway.constraints import tool_use
from conch_gateway.constraints.structured_output import Constraint
from conch_gateway.requests import thinking


def parsing_of(
    request: SamplingFields, route: Route, prepared: PrepareResponse, constraint: Constraint | None = None
) -> Parsing | None:
    """Return what a worker must know to take the answer apart; None when all of it is content."""
    if not isinstance(request, ChatCompletionRequest):
        thought = _unless_asked_for(thinking.thinking_in_texts(route, prepared), constraint)
        return None if thought is None else Parsing(thinking=thought)
    thought = _unless_asked_for(thinking.thinking(request, route, prepared), constraint)
    found = Parsing(thinking=thought, calls=tool_use.calls(request, route))
    return None if found.thinking is None and found.calls is None else found


def _unless_asked_for(thought: Thinking | None, constraint: Constraint | None) -> Thinking | None:
    """Return the thinking; None where an answer that begins with the mark is what the client asked for as text."""
    if thought is None or thought.opened or constraint is None:
        return thought
    return None if _may_say(constraint.grammar, THINKING_MARKS[thought.parser].start) else thought


def _may_say(grammar: Grammar, mark: str) -> bool:
    match grammar.kind:
        case GrammarKind.CHOICE:
            return any(text.lstrip().startswith(mark) for text in json.loads(grammar.definition))
        case GrammarKind.REGEX:
            return mark in grammar.definition.replace("\\", "")
        case _:
            return False
