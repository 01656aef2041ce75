"""The one place where engine errors become API errors."""

from conch_kit.errors import ServiceError
from conch_kit.service.engine_failures import refused_parameter, stream_failure
from conch_kit.triton.errors import EngineError, EngineRejected
from conch_llm_worker.engine.refusal_messages import UNNAMED, ParameterNames, refusal_of

_GRAMMAR = "grammar"
_OF_PICTURES = "image_"
"""How the names of a picture's tensors begin."""


def service_error(error: EngineError, *, begun: bool, names: ParameterNames = UNNAMED) -> ServiceError:
    """Return the API error of an engine error; `begun` says that the client already has part of the answer.

    Then the engine did not refuse this request: a grammar that it cannot compile ends the others too.
    """
    refused = refused_parameter(error, lambda name: _clients_name(name, names))
    if refused is None and not begun and isinstance(error, EngineRejected):
        refused = refusal_of(error.message, names)
    return refused or stream_failure(error, begun=begun)


def _clients_name(name: str, names: ParameterNames) -> str:
    if name == _GRAMMAR:
        return names.grammar or _GRAMMAR
    return names.prompt if name.startswith(_OF_PICTURES) else name
