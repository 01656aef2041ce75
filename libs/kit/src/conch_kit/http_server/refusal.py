"""What a caller gets whose request no application sees: the last answer on its connection."""

from collections.abc import Callable
from http import HTTPStatus
from os import urandom

import orjson

RefusalBody = Callable[[bytes, str, str], bytes]
"""From a request's target, as far as it has come, the message and the answer's id to the body that says why."""


def openai_body(target: bytes, message: str, request_id: str) -> bytes:
    """Return the body in the form of OpenAI's errors."""
    kind = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return orjson.dumps({"error": kind})


def refusal(body_of: RefusalBody, target: bytes, status: int, message: str) -> bytes:
    """Return a whole answer that says why."""
    request_id = urandom(16).hex()
    body = body_of(target, message, request_id)
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        f"x-request-id: {request_id}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
