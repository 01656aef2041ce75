"""How a worker takes an answer apart: what begins its thinking, and in which form it calls tools; pure."""

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.sampling import SamplingFields
from conch_contracts.records import Route
from conch_gateway.constraints import tool_use
from conch_gateway.requests import thinking


def parsing_of(request: SamplingFields, route: Route, prepared: PrepareResponse) -> Parsing | None:
    """Return what a worker must know to take the answer apart; None when all of it is content."""
    if not isinstance(request, ChatCompletionRequest):
        thought = thinking.thinking_in_texts(route, prepared)
        return None if thought is None else Parsing(thinking=thought)
    found = Parsing(thinking=thinking.thinking(request, route, prepared), calls=tool_use.calls(request, route))
    return None if found.thinking is None and found.calls is None else found
