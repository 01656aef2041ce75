"""What the engine must make of an answer: a call, a text of some format, or thinking and then one of them; pure."""

from conch_contracts.messages.answer_parsing import Parsing, Thinking
from conch_contracts.messages.generation import SamplingParameters, ThinkingLimit
from conch_contracts.messages.grammar import Grammar
from conch_contracts.messages.message import changed
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.sampling import SamplingFields
from conch_contracts.records import Route
from conch_contracts.thinking_marks import THINKING_MARKS
from conch_gateway.constraints import structural_tags, tool_use
from conch_gateway.constraints.structured_output import Constraint
from conch_gateway.errors.bad_request import conflicting
from conch_gateway.requests import thinking
from conch_kit.errors import InvalidRequest


def constraint(request: SamplingFields, route: Route, asked: Constraint | None) -> Constraint | None:
    """Return what the answer must look like: calls that are demanded, or what is asked of its text, or either.

    Without either of them, strict tools want their arguments to obey in any call that the model makes.

    An answer that must be a call has no text, so a `response_format` says nothing of it, and what can only be meant for
    this answer contradicts it. Raises InvalidRequest.
    """
    if not isinstance(request, ChatCompletionRequest):
        return asked
    if tool_use.demanded(request):
        if asked is not None and not asked.param.startswith("response_format"):
            raise conflicting(asked.param, "cannot be together with a 'tool_choice' that demands a call")
        calls = tool_use.form(request, route)
        return None if calls is None else Constraint("tools", structural_tags.structural(calls))
    if asked is None:
        optional = tool_use.optional_calls_form(request, route)
        return None if optional is None else Constraint("tools", structural_tags.structural(optional), may_think=True)
    if (calls := tool_use.form(request, route)) is None:
        return asked
    text = _format(asked.grammar, asked.param)
    return Constraint(
        asked.param, structural_tags.structural(structural_tags.either(calls, text), asked.grammar.whitespace)
    )


def constrained(
    sampling: SamplingParameters,
    request: SamplingFields,
    constraint: Constraint | None,
    prepared: PrepareResponse,
    parsing: Parsing | None,
) -> SamplingParameters:
    """Return the sampling parameters with what the answer must look like and how long the model may think.

    Raises InvalidRequest.
    """
    changes: dict[str, object] = {}
    if constraint is not None:
        changes["grammar"] = _begun(constraint, parsing)
    if isinstance(request, ChatCompletionRequest) and parsing is not None and parsing.thinking is not None:
        changes["thinking"] = _limit(request, prepared, parsing.thinking)
    return changed(sampling, **changes) if any(changes.values()) else sampling


def _begun(constraint: Constraint, parsing: Parsing | None) -> Grammar:
    """Return the grammar of an answer that begins where the prompt ends, which may be inside the thinking."""
    grammar, thought = constraint.grammar, None if parsing is None else parsing.thinking
    if thought is None or not (thought.opened or constraint.may_think):
        return grammar
    behind = structural_tags.behind_thinking if thought.opened else structural_tags.perhaps_behind_thinking
    written = behind(_format(grammar, constraint.param), THINKING_MARKS[thought.parser])
    return structural_tags.structural(written, grammar.whitespace)


def _format(grammar: Grammar, param: str) -> structural_tags.Format:
    written = structural_tags.format_of(grammar)
    if written is None:
        raise InvalidRequest(
            "A free grammar cannot be part of an answer that may also think or call tools: switch the thinking off "
            "with 'reasoning_effort': 'none', and offer no tools.",
            param=param,
            code="unsupported_parameter",
        )
    return written


def _limit(request: ChatCompletionRequest, prepared: PrepareResponse, found: Thinking) -> ThinkingLimit | None:
    tokens = thinking.budget(request)
    if tokens is None:
        return None
    start, end = thinking.one_token_each(prepared.marks, request)
    return ThinkingLimit(start_id=start, end_id=end, opened=found.opened, tokens=tokens)
