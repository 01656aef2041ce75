"""How the answer to a request is to be taken apart, and what the engine must be told for it; pure."""

from conch_contracts.generation import SamplingParameters, ThinkingLimit
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.sampling import SamplingFields
from conch_contracts.parsing import THINKING_MARKS, Parsing, Thinking
from conch_contracts.records import Route
from conch_contracts.tokenization import PrepareResponse
from conch_gateway import thinking, tool_use
from conch_gateway.thinking_grammar import behind_thinking


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
    grammar = tool_use.grammar(request, route) or sampling.grammar
    limit: ThinkingLimit | None = None
    if (found := parsing.thinking) is not None:
        if grammar is not None and found.opened:
            grammar = behind_thinking(grammar, THINKING_MARKS[found.parser])
        limit = _limit(request, prepared, found)
    if grammar is sampling.grammar and limit is None:
        return sampling
    return sampling.model_copy(update={"grammar": grammar, "thinking": limit})


def _limit(request: ChatCompletionRequest, prepared: PrepareResponse, found: Thinking) -> ThinkingLimit | None:
    tokens = thinking.budget(request)
    if tokens is None:
        return None
    start, end = thinking.one_token_each(prepared.marks, request)
    return ThinkingLimit(start_id=start, end_id=end, opened=found.opened, tokens=tokens)
