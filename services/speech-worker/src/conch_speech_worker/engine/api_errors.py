"""The one place where engine errors become API errors."""

from conch_kit.errors import ServiceError
from conch_kit.service.engine_failures import refused_parameter, stream_failure
from conch_kit.triton.errors import EngineError

_PARAMETERS = {
    "temperatures": "temperature",
    "max_tokens": "max_completion_tokens",
    "prompt_ids": "prompt",
    "pcm": "file",
}
"""What clients call what an engine names."""


def service_error(error: EngineError, *, begun: bool) -> ServiceError:
    """Return the API error of an engine error; `begun` says that the client already has part of the answer."""
    refused = None if begun else refused_parameter(error, lambda name: _PARAMETERS.get(name, name))
    return refused or stream_failure(error, begun=begun)
