import json

import pytest

from conch_kit import errors
from conch_kit.errors import (
    BodyTooLarge,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    ModelNotFound,
    NotFound,
    PermissionDenied,
    RateLimited,
    RequestTimeout,
    ServiceError,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
    UpstreamError,
    UpstreamTimeout,
)


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (InvalidRequest("m"), 400, "invalid_request_error", None),
        (InvalidRequest("m", code="invalid_value"), 400, "invalid_request_error", "invalid_value"),
        (Unauthorized("m"), 401, "invalid_request_error", "invalid_api_key"),
        (PermissionDenied("m"), 403, "invalid_request_error", "permission_denied"),
        (NotFound("m"), 404, "invalid_request_error", "not_found"),
        (ModelNotFound("m"), 404, "invalid_request_error", "model_not_found"),
        (MethodNotAllowed("m"), 405, "invalid_request_error", "method_not_allowed"),
        (RequestTimeout("m"), 408, "invalid_request_error", "timeout"),
        (BodyTooLarge("m"), 413, "invalid_request_error", "request_too_large"),
        (UnsupportedMediaType("m"), 415, "invalid_request_error", "unsupported_media_type"),
        (RateLimited("m"), 429, "rate_limit_error", "rate_limit_exceeded"),
        (InternalError("m"), 500, "server_error", None),
        (UpstreamError("m"), 502, "server_error", "upstream_error"),
        (Unavailable("m"), 503, "service_unavailable_error", "overloaded"),
        (UpstreamTimeout("m"), 504, "server_error", "timeout"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ServiceError) else "",
)
def test_each_error_has_one_status_and_all_four_keys(
    error: ServiceError, status: int, kind: str, code: str | None
) -> None:
    assert error.status == status
    param = "model" if isinstance(error, ModelNotFound) else None
    assert json.loads(error.body()) == {"error": {"message": "m", "type": kind, "param": param, "code": code}}


def test_the_drawing_of_the_tree_names_every_error() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ServiceError)]
    for kind in kinds:
        line = kind.__name__ if kind is ServiceError else f"{kind.__name__} {kind.status}"
        assert line in (errors.__doc__ or "")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InvalidRequest("m"), {}),
        (RateLimited("m"), {b"retry-after": b"1"}),
        (RateLimited("m", retry_after_s=2.1), {b"retry-after": b"3"}),
        (Unavailable("m", retry_after_s=0.0, retryable=True), {b"retry-after": b"1", b"x-conch-retryable": b"true"}),
        (UpstreamError("m", retryable=True), {b"x-conch-retryable": b"true"}),
        (Unauthorized("m"), {b"www-authenticate": b"Bearer"}),
        (MethodNotAllowed("m", allow="GET, HEAD"), {b"allow": b"GET, HEAD"}),
    ],
    ids=repr,
)
def test_headers_say_when_and_where_to_try_again(error: ServiceError, expected: dict[bytes, bytes]) -> None:
    assert dict(error.headers()) == {b"content-type": b"application/json"} | expected


def test_a_lone_surrogate_in_a_message_cannot_break_the_answer() -> None:
    body = json.loads(InvalidRequest("bad \ud800", param="\udfff").body())
    assert body["error"]["message"] == "bad \\ud800"
    assert body["error"]["param"] == "\\udfff"
