"""How the answer to a request is to be taken apart, if it is; pure."""

from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.sampling import SamplingFields
from conch_contracts.parsing import Parsing
from conch_contracts.records import Route
from conch_contracts.tokenization import PrepareResponse
from conch_gateway.thinking import thinking
from conch_gateway.tool_use import calls


def of(request: SamplingFields, route: Route, prepared: PrepareResponse) -> Parsing | None:
    """Return what a worker must know to take the answer apart; None when all of it is content."""
    if not isinstance(request, ChatCompletionRequest):
        return None
    found = Parsing(thinking=thinking(request, route, prepared), calls=calls(request, route))
    return None if found.thinking is None and found.calls is None else found
