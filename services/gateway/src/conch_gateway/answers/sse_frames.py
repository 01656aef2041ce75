"""What happens to a stream's bytes between worker and client; pure.

Frames pass untouched and only whole, so that a broken worker never leaves half a frame with a client and an error
frame can always follow. Only a worker's comments are looked for, and the client gets none of them: the usage at the
end; in the Responses API the complete answer, so that it can be saved before the client has the last event; and those
that only say that the engine works.
"""

import re
from dataclasses import dataclass

import orjson

from conch_contracts.headers import RESPONSE_COMMENT, USAGE_COMMENT, WORK_COMMENT
from conch_contracts.messages.generation import Usage
from conch_contracts.messages.message import InvalidMessage, from_json
from conch_kit.errors import ServiceError

FRAME_END = b"\n\n"
DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
MAX_FRAME_BYTES = 4 * 1024 * 1024

_ANY_COMMENT = b": "
_LATER_COMMENT = FRAME_END + _ANY_COMMENT
_COMMENT = USAGE_COMMENT.encode()
_WORKING = WORK_COMMENT.encode()
_RESPONSE = RESPONSE_COMMENT.encode()
_NUMBER = re.compile(rb'"sequence_number":(\d+)')


class FrameTooLong(Exception):
    """The worker sent more than a frame may hold without ending it."""


class FrameRelay:
    """The state of one relayed stream."""

    __slots__ = ("_carry", "_comment", "_last", "_later", "_limit", "_marker", "done")

    def __init__(self, marker: bytes = _COMMENT, limit: int = MAX_FRAME_BYTES, last: bytes = DONE) -> None:
        """`marker` is what the end begins with; `limit` bounds it, and every frame; `last` ends a complete stream."""
        self._last = last
        self._marker = marker
        self._later = FRAME_END + marker
        self._limit = limit
        self._carry = bytearray()
        """The beginning of a frame; it grows in place, as the end does, since either may come in a thousand pieces."""
        self._comment: bytearray | None = None
        self.done = False
        """Whether the worker ended the stream as a complete one."""

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that may go to the client now: whole frames up to the end."""
        if self._comment is not None:
            self._comment += chunk
            self._check(self._comment)
            return b""
        if self._carry:
            if FRAME_END not in self._carry[-1:] + chunk:
                self._carry += chunk
                self._check(self._carry)
                return b""
            chunk = bytes(self._carry + chunk)
            self._carry = bytearray()
        if chunk.startswith(_ANY_COMMENT) or chunk.find(_LATER_COMMENT) >= 0:  # faster here than `in`
            chunk = self._without_comments(chunk)
        elif not chunk.endswith(FRAME_END):
            chunk = self._hold_back(chunk)
        if chunk.endswith(self._last):
            self.done = True
        return chunk

    def overlong(self, chunk: bytes) -> bool:
        """Tell whether `feed` might raise for this chunk."""
        return len(self._carry) + len(self._comment or b"") + len(chunk) > self._limit

    def usage(self) -> Usage | None:
        """Return the usage that the worker reported, or None when it did not or nobody can read it."""
        return None if self._comment is None else parse_usage(bytes(self._comment.rpartition(_COMMENT)[2]))

    def tail(self) -> "Tail | None":
        """Return the end of a stream of the Responses API; None when the worker did not get so far."""
        first, _, rest = bytes(self._comment or b"").partition(FRAME_END)
        frames, usage, _ = rest.rpartition(_COMMENT)
        return Tail(first.removeprefix(_RESPONSE), frames) if usage else None

    def _without_comments(self, chunk: bytes) -> bytes:
        """Return the whole frames that are for the client, and keep the end once it begins."""
        if chunk.startswith(self._marker):
            self._comment = bytearray(chunk)
            return b""
        at = chunk.find(self._later)
        if at >= 0:
            self._comment = bytearray(chunk[at + 2 :])
            chunk = chunk[: at + 2]
        elif not chunk.endswith(FRAME_END):
            chunk = self._hold_back(chunk)
        return FRAME_END.join(frame for frame in chunk.split(FRAME_END) if frame != _WORKING)

    def _hold_back(self, chunk: bytes) -> bytes:
        whole = chunk.rfind(FRAME_END) + 2
        if whole < 2:
            whole = 0
        self._carry = bytearray(chunk[whole:])
        self._check(self._carry)
        return chunk[:whole]

    def _check(self, frame: bytearray) -> None:
        if len(frame) > self._limit:
            raise FrameTooLong(f"A frame exceeds {self._limit} bytes.")


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a stream of the Responses API: the complete answer, and the last event, which carries it."""

    answer: bytes
    frames: bytes

    def with_answer(self, answer: bytes) -> bytes:
        """Return the last event with this answer in the old one's place."""
        return self.frames.replace(self.answer, answer)


class ResponseRelay(FrameRelay):
    """The state of one relayed stream of the Responses API."""

    __slots__ = ()

    def __init__(self, limit: int) -> None:
        super().__init__(_RESPONSE, limit)


def parse_usage(text: bytes) -> Usage | None:
    """Return the usage record in `text`, negative numbers raised to 0; None when it is not one."""
    try:
        usage = from_json(Usage, text)
    except InvalidMessage:
        return None
    if usage.prompt_tokens >= 0 and usage.completion_tokens >= 0 and usage.audio_s >= 0:
        return usage
    return Usage(
        prompt_tokens=max(0, usage.prompt_tokens),
        completion_tokens=max(0, usage.completion_tokens),
        audio_s=max(0.0, usage.audio_s),
    )


def error_event(error: ServiceError, last: bytes) -> bytes:
    """Return the event that ends a stream of the Responses API which cannot go on; `last` went out before it.

    It has the form of the API's own `error` event, and the `error` member that makes clients raise.
    """
    numbers = _NUMBER.findall(last)
    fields = error.fields()
    number = int(numbers[-1]) + 1 if numbers else 0
    event = {**fields, "type": "error", "sequence_number": number, "error": fields}
    return b"event: error\ndata: " + orjson.dumps(event) + FRAME_END


def error_frame(error: ServiceError) -> bytes:
    """Return the frame that ends a stream which cannot go on; no `[DONE]` follows it."""
    # One line: the body of an error is compact JSON.
    return b"data: " + error.body() + FRAME_END
