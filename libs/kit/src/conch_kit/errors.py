"""The errors that a client of an HTTP service can see, each with its one status.

ServiceError
 ├ InvalidRequest 400
 ├ Unauthorized 401
 ├ PermissionDenied 403
 ├ NotFound 404
 │  └ ModelNotFound 404
 ├ MethodNotAllowed 405
 ├ RequestTimeout 408
 ├ BodyTooLarge 413
 ├ UnsupportedMediaType 415
 ├ UnprocessableContent 422
 ├ RateLimited 429
 ├ InternalError 500
 ├ UpstreamError 502
 ├ Unavailable 503
 └ UpstreamTimeout 504

Raise them anywhere below a request; `conch_kit.http.internal_app` and the gateway turn them into an answer with
`body()` and `headers()`.
"""

import math
from typing import ClassVar

import orjson

from conch_contracts import headers


class ServiceError(Exception):
    """A request that failed, in the words that its sender reads."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    default_code: ClassVar[str | None] = None
    default_retry_after_s: ClassVar[float | None] = None

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = self.default_code if code is None else code
        self.retry_after_s = self.default_retry_after_s if retry_after_s is None else retry_after_s
        self.retryable = retryable

    def body(self) -> bytes:
        """Return the OpenAI error body, all four keys present."""
        return orjson.dumps({"error": self.fields()})

    def fields(self) -> dict[str, str | None]:
        """Return what stands under `error`; messages with lone surrogates are made printable."""
        message = self.message.encode("utf-8", "backslashreplace").decode()
        param = self.param and self.param.encode("utf-8", "backslashreplace").decode()
        return {"message": message, "type": self.type, "param": param, "code": self.code}

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that belong to this error, content type included."""
        found = [(b"content-type", b"application/json")]
        if self.retry_after_s is not None:
            found.append((headers.RETRY_AFTER.encode(), str(max(1, math.ceil(self.retry_after_s))).encode()))
        if self.retryable:
            found.append((headers.RETRYABLE.encode(), b"true"))
        return found


class InvalidRequest(ServiceError):
    """The request can never succeed as it stands."""

    status = 400
    type = "invalid_request_error"


class Unauthorized(ServiceError):
    """The key is missing or unknown."""

    status = 401
    type = "invalid_request_error"
    default_code = "invalid_api_key"

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers, with the challenge that a 401 must carry."""
        return [*super().headers(), (b"www-authenticate", b"Bearer")]


class PermissionDenied(ServiceError):
    """The key is known and may not do this."""

    status = 403
    type = "invalid_request_error"
    default_code = "permission_denied"


class NotFound(ServiceError):
    """Nothing is served under this path or id."""

    status = 404
    type = "invalid_request_error"
    default_code = "not_found"


class ModelNotFound(NotFound):
    """No model has this name."""

    default_code = "model_not_found"

    def __init__(self, message: str, *, param: str | None = "model", code: str | None = None) -> None:
        super().__init__(message, param=param, code=code)


class MethodNotAllowed(ServiceError):
    """The path exists for other methods only; `allow` names them."""

    status = 405
    type = "invalid_request_error"
    default_code = "method_not_allowed"

    def __init__(self, message: str, *, allow: str = "POST") -> None:
        super().__init__(message)
        self.allow = allow

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers, with the methods that are allowed."""
        return [*super().headers(), (b"allow", self.allow.encode("latin-1"))]


class RequestTimeout(ServiceError):
    """The client took too long to send its request."""

    status = 408
    type = "invalid_request_error"
    default_code = "timeout"


class BodyTooLarge(ServiceError):
    """The body is over the limit."""

    status = 413
    type = "invalid_request_error"
    default_code = "request_too_large"


class UnsupportedMediaType(ServiceError):
    """The body is not of a type that this path reads."""

    status = 415
    type = "invalid_request_error"
    default_code = "unsupported_media_type"


class UnprocessableContent(ServiceError):
    """A part of the body has another form than this path reads, or names a file that cannot be had."""

    status = 422
    type = "invalid_request_error"
    default_code = "invalid_value"


class RateLimited(ServiceError):
    """A limit or a full queue; the same request may succeed later."""

    status = 429
    type = "rate_limit_error"
    default_code = "rate_limit_exceeded"
    default_retry_after_s = 1.0


class InternalError(ServiceError):
    """A fault of ours; the message tells nothing of the inside."""

    status = 500
    type = "server_error"


class UpstreamError(ServiceError):
    """The part behind this one failed or answered nonsense."""

    status = 502
    type = "server_error"
    default_code = "upstream_error"


class Unavailable(ServiceError):
    """Nothing can take the request at this moment."""

    status = 503
    type = "service_unavailable_error"
    default_code = "overloaded"
    default_retry_after_s = 1.0


class UpstreamTimeout(ServiceError):
    """The part behind this one did not answer in time."""

    status = 504
    type = "server_error"
    default_code = "timeout"
