"""What a caller gets whose request no application sees: the last answer on its connection."""

from http import HTTPStatus
from os import urandom

import orjson


def refusal(status: int, message: str) -> bytes:
    """Return a whole answer that says why."""
    kind = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    body = orjson.dumps({"error": kind})
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        f"x-request-id: {urandom(16).hex()}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
