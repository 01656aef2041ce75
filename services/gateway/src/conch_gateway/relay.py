"""What happens to a stream's bytes between worker and client; pure.

Frames pass untouched and only whole, so that a broken worker never leaves half a frame with a client and an error
frame can always follow. The one thing that is looked for is the trailing usage comment, which stays here.
"""

import orjson
from pydantic import ValidationError

from conch_contracts.generation import Usage
from conch_contracts.headers import USAGE_COMMENT
from conch_kit.errors import ServiceError

FRAME_END = b"\n\n"
DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
MAX_FRAME_BYTES = 4 * 1024 * 1024

_COMMENT = USAGE_COMMENT.encode()
_COMMENT_LATER = FRAME_END + _COMMENT


class FrameTooLong(Exception):
    """The worker sent more than a frame may hold without ending it."""


class FrameRelay:
    """The state of one relayed stream."""

    __slots__ = ("_carry", "_comment", "done")

    def __init__(self) -> None:
        self._carry = b""
        self._comment: bytes | None = None
        self.done = False
        """Whether the worker ended the stream as a complete one."""

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that may go to the client now: whole frames, without the usage comment."""
        if self._carry:
            chunk = self._carry + chunk
            self._carry = b""
        if self._comment is not None:
            self._comment = _bounded(self._comment + chunk)
            return b""
        if chunk.startswith(_COMMENT):
            self._comment = chunk
            return b""
        at = chunk.find(_COMMENT_LATER)
        if at >= 0:
            self._comment = chunk[at + 2 :]
            chunk = chunk[: at + 2]
        elif not chunk.endswith(FRAME_END):
            chunk = self._hold_back(chunk)
        if chunk.endswith(DONE):
            self.done = True
        return chunk

    def overlong(self, chunk: bytes) -> bool:
        """Tell whether `feed` might raise for this chunk."""
        return len(self._carry) + len(self._comment or b"") + len(chunk) > MAX_FRAME_BYTES

    def usage(self) -> Usage | None:
        """Return the usage that the worker reported, or None when it did not or nobody can read it."""
        return None if self._comment is None else parse_usage(self._comment[len(_COMMENT) :])

    def _hold_back(self, chunk: bytes) -> bytes:
        whole = chunk.rfind(FRAME_END) + 2
        if whole < 2:
            whole = 0
        self._carry = _bounded(chunk[whole:])
        return chunk[:whole]


def _bounded(frame: bytes) -> bytes:
    if len(frame) > MAX_FRAME_BYTES:
        raise FrameTooLong(f"A frame exceeds {MAX_FRAME_BYTES} bytes.")
    return frame


def parse_usage(text: bytes) -> Usage | None:
    """Return the usage record in `text`, negative numbers raised to 0; None when it is not one."""
    try:
        usage = Usage.model_validate_json(text)
    except ValidationError:
        return None
    if usage.prompt_tokens >= 0 and usage.completion_tokens >= 0:
        return usage
    return Usage(prompt_tokens=max(0, usage.prompt_tokens), completion_tokens=max(0, usage.completion_tokens))


def error_frame(error: ServiceError) -> bytes:
    """Return the frame that ends a stream which cannot go on; no `[DONE]` follows it."""
    # One line: the body of an error is compact JSON.
    return b"data: " + orjson.dumps(orjson.loads(error.body())) + FRAME_END
