"""The one place where engine errors become API errors.

`retryable` says that another engine may be asked: only where this one never began, or was lost before the client had a
byte.
"""

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
from conch_llm_worker.engine.refusal_messages import UNNAMED, ParameterNames, refusal_of

_GRAMMAR = "grammar"


def service_error(error: EngineError, *, begun: bool, names: ParameterNames = UNNAMED) -> ServiceError:
    """Return the API error of an engine error; `begun` says that the client already has part of the answer.

    Then the engine did not refuse this request: a grammar that it cannot compile ends the others too.
    """
    if isinstance(error, RequestOverdue):
        return overdue()
    if isinstance(error, EngineTimeout):
        what = "first token" if error.first else "next token"
        return UpstreamTimeout(f"The model's engine did not send the {what} in time.")
    if isinstance(error, EngineRejected) and error.message.startswith(INVALID_PREFIX):
        return _refusal(error.message.removeprefix(INVALID_PREFIX), names.grammar)
    if begun:
        return UpstreamError("The model's engine was lost in the middle of the answer.", code="upstream_lost")
    match error:
        case EngineRejected():
            failed = "The model's engine failed to answer the request; its log tells why."
            return refusal_of(error.message, names) or UpstreamError(failed)
        case EngineFull():
            return Unavailable("The model's engine is full.", retryable=True)
        case EngineUnavailable():
            return Unavailable("The model's engine cannot take the request.", retryable=True)
        case EngineLost():
            return UpstreamError("The model's engine was lost.", code="upstream_lost", retryable=True)
        case _:
            return UpstreamError("The model's engine gave an answer that cannot be read.")


def _refusal(message: str, grammar_param: str | None) -> ServiceError:
    """Return what an engine says of a parameter that it cannot obey, under the client's name for it."""
    name, _, reason = message.partition(": ")
    param = grammar_param or name if name == _GRAMMAR else name
    return InvalidRequest(f"Invalid value for '{param}': {reason}.", param=param, code="invalid_value")
