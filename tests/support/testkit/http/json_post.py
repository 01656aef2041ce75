"""One POST of JSON, as a client without an SDK sends it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: Any


def post(url: str, body: object, *, raw: bytes | None = None, timeout_s: float = 120) -> Answered:
    """Send a body as JSON, or raw bytes, and return what comes back."""
    data = json.dumps(body).encode() if raw is None else raw
    request = Request(url, data=data, headers={"content-type": "application/json"})
    try:
        with urlopen(request, timeout=timeout_s) as answer:
            return _read(answer.status, answer.headers, answer.read())
    except HTTPError as refused:
        return _read(refused.code, refused.headers, refused.read())


def read_raw(url: str, body: object, *, timeout_s: float = 120) -> bytes:
    """Send a body as JSON and return the bytes of an answer, such as a stream; any other status than 200 raises."""
    request = Request(url, data=json.dumps(body).encode(), headers={"content-type": "application/json"})
    with urlopen(request, timeout=timeout_s) as answer:
        data: bytes = answer.read()
        return data


def _read(status: int, headers: Any, body: bytes) -> Answered:
    return Answered(status, {name.lower(): value for name, value in headers.items()}, json.loads(body))
