"""The one place where engine errors become API errors."""

from conch_contracts.cpu_runtime import INVALID_PREFIX
from conch_kit.errors import InvalidRequest, ServiceError, UpstreamError, UpstreamTimeout
from conch_kit.service.engine_failures import not_taken
from conch_kit.triton.encoder_tensors import NoPictures, UnknownTensors
from conch_kit.triton.errors import EngineError, EngineLost, EngineRejected, EngineTimeout, EngineUnavailable


def service_error(error: EngineError | UnknownTensors) -> ServiceError:
    """Return the API error of an engine error; `retryable` says that another engine may be asked."""
    match error:
        case EngineTimeout():
            return UpstreamTimeout("The model's engine did not answer in time.")
        case EngineRejected() if error.message.startswith(INVALID_PREFIX):
            return InvalidRequest(error.message.removeprefix(INVALID_PREFIX))
        case EngineRejected():
            return UpstreamError("The model's engine failed to answer the request; its log tells why.")
        case EngineUnavailable() | EngineLost():
            return not_taken(error)
        case NoPictures():
            return InvalidRequest(
                f"This model's engine cannot be shown pictures. {error}", param="rows", code="unsupported_parameter"
            )
        case UnknownTensors():
            return UpstreamError("The model's engine does not have the tensors of an encoder.")
        case _:
            return UpstreamError("The model's engine gave an answer that cannot be read.")
