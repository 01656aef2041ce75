"""What differs between the protocols that answers speak, whichever API they are of: errors, and how a stream rests."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from conch_contracts.headers import REQUEST_ID
from conch_gateway.answers.sse_frames import DONE, FRAME_END, KEEP_ALIVE, error_frame
from conch_kit import anthropic_errors
from conch_kit.errors import InvalidRequest, ServiceError
from conch_kit.http_server.refusal import RefusalAnswer, openai_refusal

MESSAGES_PREFIX = "/v1/messages"
_MODELS_PREFIX = "/v1/models"
"""Of paths that both protocols have; what the requests of Anthropic's clients have there is the header."""
_ANTHROPICS_HEADER = b"anthropic-version"
_ANTHROPICS_REQUEST_ID = "request-id"


@dataclass(frozen=True, slots=True)
class AnswerProtocol:
    """How one protocol says what is no answer."""

    error: Callable[[ServiceError, str], tuple[int, bytes]]
    """From an error and the request's id to a status and a body."""
    error_frame: Callable[[ServiceError, str], bytes]
    """The same as the last frame of a stream."""
    keep_alive: bytes
    """What a stream carries while there is nothing to send."""
    last_frame: bytes
    """Of a complete stream."""
    error_mark: bytes
    """What no frame holds but one that says that the answer broke."""
    id_header: bytes | None = None
    """A header beside `x-request-id` in which clients look for the request's id."""


OPENAI = AnswerProtocol(
    error=lambda error, _: (error.status, error.body()),
    error_frame=lambda error, _: error_frame(error),
    keep_alive=KEEP_ALIVE,
    last_frame=DONE,
    error_mark=b'data: {"error"',
)
MESSAGES = AnswerProtocol(
    error=lambda error, request_id: (anthropic_errors.status_of(error), anthropic_errors.body_of(error, request_id)),
    error_frame=anthropic_errors.event_of,
    keep_alive=b'event: ping\ndata: {"type":"ping"}' + FRAME_END,
    last_frame=b'event: message_stop\ndata: {"type":"message_stop"}' + FRAME_END,
    error_mark=b"event: error\n",
    id_header=_ANTHROPICS_REQUEST_ID.encode(),
)


def protocol_of(path: str, headers: Collection[bytes] = ()) -> AnswerProtocol:
    """Return the protocol that a request speaks, be anything served under its path or not."""
    if _is_below(MESSAGES_PREFIX, path) or (_ANTHROPICS_HEADER in headers and _is_below(_MODELS_PREFIX, path)):
        return MESSAGES
    return OPENAI


def refused_head(target: bytes, message: str, request_id: str) -> RefusalAnswer:
    """Return what a client is told whose request no handler sees, in the form of the path that it asked for."""
    if protocol_of(target.partition(b"?")[0].decode("latin-1")) is OPENAI:
        return openai_refusal(target, message, request_id)
    body = anthropic_errors.body_of(InvalidRequest(message), request_id)
    return RefusalAnswer(body, (REQUEST_ID, _ANTHROPICS_REQUEST_ID))


def _is_below(prefix: str, path: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) :][:1] in ("", "/")
