"""Errors as Anthropic's Messages API says them: https://platform.claude.com/docs/en/api/errors."""

import orjson

from conch_kit.errors import ServiceError, Unavailable

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
UNSUPPORTED_THREAD = "thread_unsupported_request"
"""The one code that clients read: the SDK sends the whole conversation then, as it does without threads."""
OVERLOADED = 529
"""That API's own status for what HTTP calls 503."""


def status_of(error: ServiceError) -> int:
    """Return the status."""
    return OVERLOADED if isinstance(error, Unavailable) else error.status


def body_of(error: ServiceError, request_id: str) -> bytes:
    """Return the body, whose message names the parameter that is at fault."""
    status, fields = status_of(error), error.fields()
    said, param = fields["message"] or "", fields["param"]
    detail: dict[str, object] = {
        "type": _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error"),
        "message": said if param is None or param in said else f"{param}: {said}",
    }
    if fields["code"] == UNSUPPORTED_THREAD:
        detail["details"] = {"error_code": UNSUPPORTED_THREAD}
    return orjson.dumps({"type": "error", "error": detail, "request_id": request_id})


def event_of(error: ServiceError, request_id: str) -> bytes:
    """Return the event that ends a stream which cannot go on; no `message_stop` follows it."""
    return b"event: error\ndata: %b\n\n" % body_of(error, request_id)
