"""What the gateway needs from an HTTP client: POST some bytes, see the head, read the body piece by piece.

Failures::

    UpstreamFailure
    ├── ConnectFailed   nothing was sent; asking another process is safe
    │   └── ConnectTimedOut   a process that is alive on a busy machine may take the next connection
    └── AnswerLost      the connection broke, or carried something that is not HTTP; `started` says whether the
                        head of an answer had arrived
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from conch_contracts.names import WorkerUrl

Header = tuple[bytes, bytes]


class UpstreamFailure(Exception):
    """The process that was asked gave no usable answer."""


class ConnectFailed(UpstreamFailure):
    """No connection could be made."""


class ConnectTimedOut(ConnectFailed):
    """No connection could be made in time."""


class AnswerLost(UpstreamFailure):
    """The connection broke before the answer was complete."""

    def __init__(self, message: str, *, started: bool) -> None:
        super().__init__(message)
        self.started = started


class BodySource(Protocol):
    """What follows in a body and does not stand in memory as a whole; it can be sent again."""

    @property
    def size(self) -> int:
        """Its bytes."""

    async def piece(self, start: int) -> bytes:
        """Return some of it from there on; raises a ServiceError when it cannot be had."""
        ...


@dataclass(frozen=True, slots=True)
class Post:
    """One request; `headers` hold neither host, length nor content type."""

    url: WorkerUrl
    path: str
    headers: tuple[Header, ...]
    body: bytes
    rest: BodySource | None = None
    """What is sent behind `body`, no faster than the other side takes it; the body is no JSON then."""


class UpstreamResponse(Protocol):
    """The head of an answer, and its body as it arrives."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """Header names in lower case."""

    async def read(self) -> bytes:
        """Return what has arrived since the last call, waiting for the first byte; empty at the end.

        Raises AnswerLost. Not reading makes the sender wait.
        """

    async def push(self, sink: Callable[[bytes], bool]) -> None:
        """Offer each piece to `sink` the moment it arrives, without waking the caller; `read` gives what is left.

        Returns at the end of the body, and when a piece is left for `read`: `sink` declines one by returning False.
        `sink` is called from the socket's callback and must neither block nor raise. Raises AnswerLost.
        """


class Upstream(Protocol):
    """An HTTP client for internal calls."""

    def post(self, request: Post) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Send the request and wait for the head of the answer; leaving early closes the connection at once.

        Raises ConnectFailed or AnswerLost. Has no time-out beyond the connect: the caller owns the deadline.
        """


async def read_all(answer: UpstreamResponse, *, limit: int) -> bytes:
    """Return the whole body; raises AnswerLost when it is cut or above `limit` bytes."""
    pieces: list[bytes] = []
    size = 0
    while piece := await answer.read():
        size += len(piece)
        if size > limit:
            raise AnswerLost(f"The answer exceeds {limit} bytes.", started=True)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
