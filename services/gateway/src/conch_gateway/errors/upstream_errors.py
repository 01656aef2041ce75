"""An internal service's error answer, as the error that the client gets; pure.

What concerns the request (4xx) passes as it is. What concerns our own parts, such as a wrong internal token, is a
failure of ours and says nothing more.
"""

from collections.abc import Mapping

from pydantic import ValidationError

from conch_contracts.headers import RETRY_AFTER, RETRYABLE
from conch_contracts.openai.errors import ErrorResponse
from conch_kit.errors import (
    BodyTooLarge,
    InternalError,
    InvalidRequest,
    RateLimited,
    ServiceError,
    Unavailable,
    UnprocessableContent,
    UpstreamError,
    UpstreamTimeout,
)

_KINDS: Mapping[int, type[ServiceError]] = {
    kind.status: kind
    for kind in (
        InvalidRequest,
        BodyTooLarge,
        UnprocessableContent,
        RateLimited,
        InternalError,
        UpstreamError,
        Unavailable,
        UpstreamTimeout,
    )
}


def as_error(status: int, headers: Mapping[bytes, bytes], body: bytes) -> ServiceError:
    """Return the error that an answer with this status means for the client."""
    kind = _KINDS.get(status)
    retryable = headers.get(RETRYABLE.encode()) == b"true"
    try:
        detail = ErrorResponse.model_validate_json(body).error
    except ValidationError:
        detail = None
    if kind is None or detail is None:
        return UpstreamError("The service behind the gateway failed.", retryable=retryable)
    if kind is InternalError:
        return InternalError("The server had an error while processing the request.", retryable=retryable)
    return kind(
        detail.message,
        param=detail.param,
        code=detail.code,
        retry_after_s=_seconds(headers.get(RETRY_AFTER.encode())),
        retryable=retryable,
    )


def _seconds(value: bytes | None) -> float | None:
    return float(value) if value is not None and value.isdigit() else None
