"""What a caller gets whose request no application sees: the last answer on its connection."""

from collections.abc import Callable
from http import HTTPStatus
from os import urandom
from typing import NamedTuple

import orjson


class RefusalAnswer(NamedTuple):
    """What says why a request was refused."""

    body: bytes
    id_headers: tuple[str, ...] = ("x-request-id",)
    """Headers that carry the answer's id."""


RefusalForm = Callable[[bytes, str, str], RefusalAnswer]
"""From a request's target, as far as it has come, the message and the answer's id to what says why."""


def openai_refusal(target: bytes, message: str, request_id: str) -> RefusalAnswer:
    """Return a refusal in the form of OpenAI's errors."""
    kind = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return RefusalAnswer(orjson.dumps({"error": kind}))


def refusal(form: RefusalForm, target: bytes, status: int, message: str) -> bytes:
    """Return a whole answer that says why."""
    request_id = urandom(16).hex()
    body, id_headers = form(target, message, request_id)
    ids = "".join(f"{name}: {request_id}\r\n" for name in id_headers)
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        f"{ids}content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
