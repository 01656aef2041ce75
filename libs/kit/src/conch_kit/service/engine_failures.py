"""Turns failures of an engine's stream into API errors, where a worker has no words of its own for them.

`retryable` says that another engine may be asked: only where this one never began, or was lost before the client had a
byte.
"""

from collections.abc import Callable

from conch_contracts.cpu_runtime import INVALID_PREFIX
from conch_kit.errors import InvalidRequest, ServiceError, Unavailable, UpstreamError, UpstreamTimeout
from conch_kit.http.request_scope import overdue
from conch_kit.triton.errors import (
    EngineError,
    EngineFull,
    EngineLost,
    EngineRejected,
    EngineTimeout,
    EngineUnavailable,
    RequestOverdue,
)


def refused_parameter(error: EngineError, clients_name: Callable[[str], str]) -> ServiceError | None:
    """Return an engine's refusal of one parameter, under the name that clients have for it; None for what is none."""
    if not isinstance(error, EngineRejected) or not error.message.startswith(INVALID_PREFIX):
        return None
    name, _, reason = error.message.removeprefix(INVALID_PREFIX).partition(": ")
    param = clients_name(name)
    return InvalidRequest(f"Invalid value for '{param}': {reason}.", param=param, code="invalid_value")


def not_taken(error: EngineError) -> Unavailable:
    """Return the API error for a request that another engine may be asked for."""
    if isinstance(error, EngineFull):
        return Unavailable("The model's engine is full.", retryable=True)
    return Unavailable("The model's engine cannot take the request.", code="model_not_ready", retryable=True)


def stream_failure(error: EngineError, *, begun: bool) -> ServiceError:
    """Return the API error of a failure; `begun` says that the client already has part of the answer."""
    if isinstance(error, RequestOverdue):
        return overdue()
    if isinstance(error, EngineTimeout):
        what = "first token" if error.first else "next token"
        return UpstreamTimeout(f"The model's engine did not send the {what} in time.")
    if begun:
        return UpstreamError("The model's engine was lost in the middle of the answer.", code="upstream_lost")
    match error:
        case EngineRejected():
            return UpstreamError("The model's engine failed to answer the request; its log tells why.")
        case EngineUnavailable():
            return not_taken(error)
        case EngineLost():
            return UpstreamError("The model's engine was lost.", code="upstream_lost", retryable=True)
        case _:
            return UpstreamError("The model's engine gave an answer that cannot be read.")
