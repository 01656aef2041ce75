"""What can go wrong with an engine, in the words of the workers.

EngineError
 ├ EngineUnavailable    nothing was run; another engine may be asked
 │ └ EngineFull         because too much waits inside it
 ├ EngineRejected       the engine answered with an error of its own
 ├ EngineTimeout        no message in time (`first`: not even one)
 │ └ RequestOverdue     the time of the whole request was over
 ├ EngineLost           broke after the first message
 └ MalformedResponse    an answer that its own declaration contradicts
"""

from typing import ClassVar

_FULL = ("Exceeds maximum queue size", "Maximum queue size of", "Request timeout expired")
"""Of Triton's own queue, of TensorRT-LLM's, and of what waited in Triton's for too long."""
_NOT_RUN = (
    "Request for unknown model",
    "is not ready",
    "Server is stopping",
    "has stopped accepting",
    "is not healthy",
)


class EngineError(Exception):
    """A request to an engine failed; the message says how."""

    retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EngineUnavailable(EngineError):
    """The engine cannot be reached or does not have the model at this moment; nothing was run."""

    retryable = True


class EngineFull(EngineUnavailable):
    """Too much waits inside the engine; nothing was run."""


class EngineRejected(EngineError):
    """The engine refused the request or its model failed; `message` is what it said."""


class EngineTimeout(EngineError):
    """The engine was silent for too long."""

    def __init__(self, message: str, *, first: bool) -> None:
        super().__init__(message)
        self.first = first


class RequestOverdue(EngineTimeout):
    """The time of the whole request was over before the engine had finished, which need not have been silent."""


class EngineLost(EngineError):
    """The stream broke after its first message."""


class MalformedResponse(EngineError):
    """A response that cannot be read as what it says it is."""


def from_message(message: str, *, started: bool) -> EngineError:
    """Return the error that an in-band message of Triton stands for; `started`: a message had come before."""
    if any(sign in message for sign in _FULL):
        return EngineLost(message) if started else EngineFull(message)
    if any(sign in message for sign in _NOT_RUN):
        return EngineLost(message) if started else EngineUnavailable(message)
    return EngineRejected(message)
