"""The one place where engine errors become API errors.

`retryable` says that another engine may be asked: only where this one never began, or was lost before the client had a
byte.
"""

from conch_contracts.cpu_runtime import INVALID_PREFIX
from conch_kit.errors import InvalidRequest, ServiceError, Unavailable, UpstreamError, UpstreamTimeout
from conch_kit.http.request_scope import overdue
from conch_kit.triton.errors import (
    EngineError,
    EngineLost,
    EngineRejected,
    EngineTimeout,
    EngineUnavailable,
    RequestOverdue,
)

_PARAMETERS = {
    "temperatures": "temperature",
    "max_tokens": "max_completion_tokens",
    "prompt_ids": "prompt",
    "pcm": "file",
}
"""What clients call what an engine names."""


def service_error(error: EngineError, *, begun: bool) -> ServiceError:
    """Return the API error of an engine error; `begun` says that the client already has part of the answer."""
    if isinstance(error, RequestOverdue):
        return overdue()
    if isinstance(error, EngineTimeout):
        what = "first token" if error.first else "next token"
        return UpstreamTimeout(f"The model's engine did not send the {what} in time.")
    if isinstance(error, EngineRejected) and error.message.startswith(INVALID_PREFIX) and not begun:
        return _refusal(error.message.removeprefix(INVALID_PREFIX))
    if begun:
        return UpstreamError("The model's engine was lost in the middle of the answer.", code="upstream_lost")
    match error:
        case EngineRejected():
            return UpstreamError("The model's engine failed to answer the request; its log tells why.")
        case EngineUnavailable():
            return Unavailable("The model's engine cannot take the request.", retryable=True)
        case EngineLost():
            return UpstreamError("The model's engine was lost.", code="upstream_lost", retryable=True)
        case _:
            return UpstreamError("The model's engine gave an answer that cannot be read.")


def _refusal(message: str) -> ServiceError:
    name, _, reason = message.partition(": ")
    param = _PARAMETERS.get(name, name)
    return InvalidRequest(f"Invalid value for '{param}': {reason}.", param=param, code="invalid_value")
