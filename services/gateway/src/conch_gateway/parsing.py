"""How the answer to a request is to be taken apart, and what the engine must be told for it; pure."""

from conch_contracts.generation import SamplingParameters, ThinkingLimit
from conch_contracts.grammar import Grammar
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.sampling import SamplingFields
from conch_contracts.parsing import THINKING_MARKS, Parsing, Thinking
from conch_contracts.records import Route
from conch_contracts.tokenization import PrepareResponse
from conch_gateway import structural, thinking, tool_use
from conch_kit.errors import InvalidRequest


def of(request: SamplingFields, route: Route, prepared: PrepareResponse) -> Parsing | None:
    """Return what a worker must know to take the answer apart; None when all of it is content."""
    if not isinstance(request, ChatCompletionRequest):
        return None
    found = Parsing(thinking=thinking.thinking(request, route, prepared), calls=tool_use.calls(request, route))
    return None if found.thinking is None and found.calls is None else found


def constrained(
    sampling: SamplingParameters,
    request: SamplingFields,
    route: Route,
    prepared: PrepareResponse,
    parsing: Parsing | None,
) -> SamplingParameters:
    """Return the sampling parameters with what demands a call and bounds the thinking; raises InvalidRequest."""
    if parsing is None or not isinstance(request, ChatCompletionRequest):
        return sampling
    found = parsing.thinking
    grammar = _grammar(sampling.grammar, request, route)
    if grammar is not None and found is not None and found.opened:
        grammar = structural.structural(
            structural.behind_thinking(_format(grammar), THINKING_MARKS[found.parser]), grammar.whitespace
        )
    limit = None if found is None else _limit(request, prepared, found)
    if grammar is sampling.grammar and limit is None:
        return sampling
    return sampling.model_copy(update={"grammar": grammar, "thinking": limit})


def _grammar(asked: Grammar | None, request: ChatCompletionRequest, route: Route) -> Grammar | None:
    """Return what the answer must look like: calls that are demanded, or what is asked of its text, or either.

    An answer that must be a call has no text that could look like anything.
    """
    if tool_use.demanded(request):
        calls = tool_use.form(request, route)
        return None if calls is None else structural.structural(calls)
    if asked is None or (calls := tool_use.form(request, route)) is None:
        return asked
    return structural.structural(structural.either(calls, _format(asked)), asked.whitespace)


def _format(grammar: Grammar) -> structural.Format:
    written = structural.format_of(grammar)
    if written is None:
        raise InvalidRequest(
            "A free grammar cannot be part of an answer that may also think or call tools: switch the thinking off "
            "with 'reasoning_effort': 'none', and offer no tools.",
            param="grammar",
            code="unsupported_parameter",
        )
    return written


def _limit(request: ChatCompletionRequest, prepared: PrepareResponse, found: Thinking) -> ThinkingLimit | None:
    tokens = thinking.budget(request)
    if tokens is None:
        return None
    start, end = thinking.one_token_each(prepared.marks, request)
    return ThinkingLimit(start_id=start, end_id=end, opened=found.opened, tokens=tokens)
