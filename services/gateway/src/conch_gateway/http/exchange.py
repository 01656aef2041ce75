"""One request as the edge sees it, from its head to its line in the access log."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from os import urandom

from conch_kit.http.asgi import Scope

API_VERSION = (b"openai-version", b"2020-10-01")
"""Of the API that this one is; OpenAI has had no other."""

_SANE_ID = re.compile(rb"[A-Za-z0-9._:\-]{1,128}")
_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class Outcome(StrEnum):
    """What became of a request."""

    OK = "ok"
    REFUSED = "refused"
    """By a status below 500."""
    FAILED = "failed"
    """By one from 500 on; where no model is asked, by one from 400 on."""
    BROKEN = "broken"
    """After its answer had begun."""
    CUT = "cut"
    """By the end of the process."""
    GONE = "gone"
    """The client has gone, or has cancelled it."""
    STALLED = "stalled"
    """The client did not read."""


@dataclass(slots=True)
class Exchange:
    """What is known about a request so far; the one mutable record of its life."""

    method: str
    path: str
    headers: dict[bytes, bytes]
    request_id: str
    started: float
    """On the monotonic clock."""
    endpoint: str = "other"
    """Which endpoint, for metrics; from a closed set."""
    model: str = ""
    """First name of the model, once it is known to exist."""
    key: str | None = None
    """Name of the API key."""
    status: int = 0
    outcome: Outcome = Outcome.OK
    error_code: str | None = None
    fault: str | None = None
    """What the client is told of an error from 500 on, or of 429: fixed words, without anything of the request."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    audio_s: float = 0.0
    """Seconds of sound that were transcribed."""
    body_bytes: int = 0
    """Of the request, once it is read; of a form nothing is counted, since its file has a bound of its own."""
    max_wait_s: float | None = None
    """How long it waits for an engine at most, where the client says so."""
    held_s: float | None = None
    """How long it waited for an engine to start; None: it did not have to."""
    user: str | None = None
    """Whom the client says that it asks for."""
    metadata: Mapping[str, object] | None = None
    """What the client notes about its request."""
    reply_headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Headers that every answer to this request carries."""

    @classmethod
    def begin(cls, scope: Scope, *, now: float) -> "Exchange":
        """Return the record for a request whose head has arrived."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        asked_id = headers.get(b"x-request-id")
        sane = asked_id is not None and _SANE_ID.fullmatch(asked_id)
        request_id = asked_id if asked_id is not None and sane else urandom(16).hex().encode()
        return cls(
            method=scope["method"],
            path=scope["path"],
            headers=headers,
            request_id=request_id.decode(),
            started=now,
            reply_headers=[(b"x-request-id", request_id), API_VERSION],
        )

    def rename(self, request_id: str) -> None:
        """Take over the id that the body names; one in the request's head stays."""
        if self.reply_headers[0][1] != self.headers.get(b"x-request-id"):
            self.request_id = request_id
            self.reply_headers[0] = (b"x-request-id", request_id.encode())

    @property
    def traceparent(self) -> bytes | None:
        """The client's W3C trace context, when it is well-formed."""
        value = self.headers.get(b"traceparent")
        return value if value is not None and _TRACEPARENT.fullmatch(value) else None
