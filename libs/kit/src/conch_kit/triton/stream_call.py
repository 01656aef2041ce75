"""One call of `ModelStreamInfer` over HTTP/2: messages, flow control and the status at its end.

The shapes are those of gRPC over HTTP/2 (github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md): each message behind a
byte that says whether it is compressed, which this client never allows, and four bytes of length.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError
from tritonclient.grpc.service_pb2 import ModelStreamInferResponse

from conch_kit.http2.connection import STREAM_WINDOW_BYTES, Http2Connection
from conch_kit.http2.errors import StreamFailed
from conch_kit.http2.frames import ErrorCode
from conch_kit.http2.header_blocks import Headers
from conch_kit.triton.message_limits import MAX_MESSAGE_BYTES
from conch_kit.triton.message_parsing import MessageTooLarge, stream_response

_PREFIX_BYTES = 5
MESSAGES_A_TURN = 16
"""What a reader who never has to wait is given before others have their turn."""
QUEUED_MESSAGES = 256
"""How many are cut out of what was received; the window would hold two hundred thousand empty ones, 5 bytes each."""
_STATUS = {str(code.value[0]): code for code in grpc.StatusCode}
_OF_HTTP = {
    "400": grpc.StatusCode.INTERNAL,
    "401": grpc.StatusCode.UNAUTHENTICATED,
    "403": grpc.StatusCode.PERMISSION_DENIED,
    "404": grpc.StatusCode.UNIMPLEMENTED,
    **dict.fromkeys(("429", "502", "503", "504"), grpc.StatusCode.UNAVAILABLE),
}
"""What an answer without gRPC's own status means (doc/http-grpc-status-mapping.md there)."""
_OF_RESET: dict[int | None, grpc.StatusCode] = {
    None: grpc.StatusCode.UNAVAILABLE,
    ErrorCode.REFUSED_STREAM: grpc.StatusCode.UNAVAILABLE,
    ErrorCode.CANCEL: grpc.StatusCode.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: grpc.StatusCode.PERMISSION_DENIED,
}


class CallFailed(Exception):
    """A call ended with another status than OK."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class StreamCall:
    """The messages of one call, read by one task. It is a connection's `Receiver`.

    The next messages are in a short queue, each with its prefix; the bytes behind them stay uncut until it is empty.
    """

    __slots__ = (
        "_callbacks",
        "_connection",
        "_cut_short",
        "_done",
        "_error",
        "_given_back",
        "_head",
        "_messages",
        "_most_bytes",
        "_partial",
        "_received",
        "_served",
        "_stream",
        "_trailers",
        "_unread",
        "_waiter",
        "heard_at",
    )

    def __init__(self, most_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._most_bytes = most_bytes
        self._connection: Http2Connection | None = None
        self._stream: int | None = None
        self._messages: deque[bytes] = deque()
        self._partial = bytearray()
        self._cut_short = False  # whole messages may be in the partial bytes: the queue was full
        self._head: Headers | None = None
        self._trailers: Headers | None = None
        self._received = self._given_back = self._unread = 0
        self._served = 0
        self.heard_at = -math.inf
        """When bytes of an answer came last, on the loop's clock."""
        self._waiter: asyncio.Future[None] | None = None
        self._done = False
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[StreamCall], None]] = []

    def send(self, connection: Http2Connection, head: bytes, body: bytes) -> None:
        """Begin the call on a connection, unless it was cancelled meanwhile."""
        if not self._done:
            self._connection = connection
            connection.open(self, head, body)

    async def read(self) -> ModelStreamInferResponse | None:
        """Return the next message, or None at the end; raise CallFailed, MessageTooLarge, CancelledError."""
        if self._served >= MESSAGES_A_TURN:
            self._served = 0
            await asyncio.sleep(0)  # a reader who always finds more would keep everyone else from theirs
        if self._cut_short and not self._messages:
            self._cut()
        if not self._messages and not self._done:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
                self._served = 0
        if self._messages:
            self._served += 1
            message = self._messages.popleft()
            self._unread -= len(message)
            self._give_back()
            return self._decoded(message[_PREFIX_BYTES:])
        if self._error is not None:
            raise self._error
        if self._partial:
            raise CallFailed(grpc.StatusCode.INTERNAL, "The server ended in the middle of a message.")
        return None

    def cancel(self) -> None:
        """End the call at once, if it is open. Who reads is cancelled."""
        if self._done:
            return
        if self._connection is not None:
            if self._stream is None:
                self._connection.withdraw(self)
            else:
                self._connection.cancel(self._stream)
        self._forget()
        if self._waiter is not None:
            self._waiter.cancel()
        self._close(asyncio.CancelledError())

    def done(self) -> bool:
        """Return whether the call has ended on both sides."""
        return self._done

    def add_done_callback(self, callback: "Callable[[StreamCall], None]") -> None:
        """Call back when it has."""
        self._callbacks.append(callback)

    def fail(self, code: grpc.StatusCode, message: str) -> None:
        """End the call with this status, behind the messages that were received."""
        if not self._done:
            self._close(CallFailed(code, message))

    # The connection's words.

    def opened(self, stream: int) -> None:
        """Remember the stream's number."""
        self._stream = stream

    def headers(self, headers: Headers) -> None:
        """Take the head or the trailers."""
        if self._head is not None:
            self._trailers = headers
        elif not headers.get(":status", "").startswith("1"):  # what is only informational comes before the head
            self._head = headers
            if "grpc-status" not in headers and not _is_grpc(headers):
                status = headers.get(":status", "nothing")
                code = _OF_HTTP.get(status, grpc.StatusCode.UNKNOWN)
                self._refuse(CallFailed(code, f"The server does not speak gRPC: it answered with {status}."))

    def data(self, payload: bytes) -> None:
        """Take bytes; most often they are one whole message."""
        self.heard_at = asyncio.get_running_loop().time()
        self._received += len(payload)
        if (
            not self._partial
            and len(self._messages) < QUEUED_MESSAGES
            and len(payload) >= _PREFIX_BYTES
            and payload[0] == 0
            and int.from_bytes(payload[1:_PREFIX_BYTES], "big") == len(payload) - _PREFIX_BYTES
        ):
            self._add(payload)
        else:
            self._partial += payload
            self._cut()
            self._give_back()
        if self._messages:
            self._wake()

    def ended(self, error: StreamFailed | None) -> None:
        """Take the end."""
        if not self._done:
            self._close(self._failure(error))

    def _decoded(self, message: bytes) -> ModelStreamInferResponse:
        try:
            return stream_response(message)
        except MessageTooLarge as error:
            self._refuse_rest(error)
            raise
        except DecodeError as error:
            failed = CallFailed(grpc.StatusCode.INTERNAL, "The server sends a message that cannot be read.")
            self._refuse_rest(failed)
            raise failed from error

    def _refuse_rest(self, error: Exception) -> None:
        """End the call with a message that was taken and cannot be given, and all behind it."""
        self._forget()
        self._refuse(error)

    def _cut(self) -> None:
        """Move whole messages out of the bytes that are there, as many as the queue takes."""
        partial = self._partial
        self._cut_short = False
        while len(partial) >= _PREFIX_BYTES:
            if len(self._messages) >= QUEUED_MESSAGES:
                self._cut_short = True
                return
            if partial[0]:
                self._refuse(CallFailed(grpc.StatusCode.INTERNAL, "The server sends a compressed message."))
                return
            size = _PREFIX_BYTES + int.from_bytes(partial[1:_PREFIX_BYTES], "big")
            if size - _PREFIX_BYTES > self._most_bytes:
                text = f"The engine sends a message of {size - _PREFIX_BYTES} bytes; {self._most_bytes} are allowed."
                self._refuse(MessageTooLarge(text))
                return
            if len(partial) < size:
                return
            self._add(bytes(partial[:size]))
            del partial[:size]

    def _add(self, message: bytes) -> None:
        self._messages.append(message)
        self._unread += len(message)

    def _give_back(self) -> None:
        """Let the server send again what was read, and what a message that is not whole yet needs."""
        owed = self._received - self._unread - self._given_back
        if owed >= STREAM_WINDOW_BYTES // 2 and self._connection is not None and self._stream is not None:
            if self._cut_short:
                owed -= len(self._partial)
                if owed < STREAM_WINDOW_BYTES // 2:
                    return
            self._given_back += owed
            self._connection.give_back(self._stream, owed)

    def _refuse(self, error: Exception) -> None:
        """End a call whose server sends what cannot be taken, also behind its own end."""
        self._partial.clear()
        if self._done:
            self._error = error
            return
        if self._connection is not None and self._stream is not None:
            self._connection.cancel(self._stream)
        self._close(error)

    def _forget(self) -> None:
        """Drop what was received and is not read."""
        self._messages.clear()
        self._partial.clear()
        self._cut_short = False

    def _failure(self, error: StreamFailed | None) -> Exception | None:
        """Return what the end says: gRPC's status where there is one, else HTTP's."""
        last = self._trailers or self._head or {}
        if "grpc-status" not in last:
            if error is None:
                return CallFailed(grpc.StatusCode.UNKNOWN, "The server ended the call without a status.")
            return CallFailed(_OF_RESET.get(error.code, grpc.StatusCode.INTERNAL), str(error))
        code = _STATUS.get(last["grpc-status"], grpc.StatusCode.UNKNOWN)
        if code is not grpc.StatusCode.OK:
            return CallFailed(code, unquote(last.get("grpc-message", "")) or f"The server ended with {code.name}.")
        return None

    def _close(self, error: BaseException | None) -> None:
        self._done = True
        self._error = error
        self._connection = None
        self._wake()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _is_grpc(head: Headers) -> bool:
    return head.get(":status") == "200" and head.get("content-type", "").startswith("application/grpc")
