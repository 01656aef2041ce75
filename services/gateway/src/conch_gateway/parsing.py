"""How the answer to a request is to be taken apart, and what the engine must be told for it; pure."""

from conch_contracts.generation import SamplingParameters, ThinkingLimit
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.sampling import SamplingFields
from conch_contracts.parsing import Parsing
from conch_contracts.records import Route
from conch_contracts.tokenization import PrepareResponse
from conch_gateway.thinking import budget, one_token_each, thinking
from conch_gateway.tool_use import calls


def of(request: SamplingFields, route: Route, prepared: PrepareResponse) -> Parsing | None:
    """Return what a worker must know to take the answer apart; None when all of it is content."""
    if not isinstance(request, ChatCompletionRequest):
        return None
    found = Parsing(thinking=thinking(request, route, prepared), calls=calls(request, route))
    return None if found.thinking is None and found.calls is None else found


def constrained(
    sampling: SamplingParameters, request: SamplingFields, prepared: PrepareResponse, parsing: Parsing | None
) -> SamplingParameters:
    """Return the sampling parameters with what keeps the thinking to its budget; raises InvalidRequest."""
    if parsing is None or parsing.thinking is None or not isinstance(request, ChatCompletionRequest):
        return sampling
    tokens = budget(request)
    if tokens is None:
        return sampling
    start, end = one_token_each(prepared.marks, request)
    limit = ThinkingLimit(start_id=start, end_id=end, opened=parsing.thinking.opened, tokens=tokens)
    return sampling.model_copy(update={"thinking": limit})
