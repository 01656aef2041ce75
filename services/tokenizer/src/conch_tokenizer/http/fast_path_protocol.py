"""uvicorn's HTTP protocol with a fast path: a small request goes to an idle child in the callback that read it.

Its answer goes out in the callback that brought it, so the usual request costs neither a task nor ASGI messages, which
would be most of what this process does for it. All others go through uvicorn to the same handlers: large ones, those
that find no idle child, and whatever is not a plain POST to one of the service's paths by a caller who knows the token.
"""

import logging
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from conch_contracts.headers import INTERNAL_TOKEN, REQUEST_ID
from conch_kit.errors import InternalError, ServiceError
from conch_kit.http.internal_app import error_headers, is_trusted, note_request_id
from conch_tokenizer.children.child_queue import SMALL_BYTES
from conch_tokenizer.children.frames import Frame, Operation, ReplyKind
from conch_tokenizer.errors import ChildError
from conch_tokenizer.http.service import PATHS, TokenizerService

log = logging.getLogger(__name__)

_OPERATIONS = {path.encode(): operation for path, operation in PATHS.items()}
_JSON = b"content-type: application/json\r\n"
_TOKEN, _REQUEST_ID = INTERNAL_TOKEN.encode(), REQUEST_ID.encode()


def fast_path(service: TokenizerService, token: bytes | None) -> type[HttpToolsProtocol]:
    """Return a protocol class with the fast path to this service."""

    class FastPath(FastPathProtocol):
        pass

    FastPath.service = service
    FastPath.token = token
    return FastPath


class FastPathProtocol(HttpToolsProtocol):
    """One caller's connection."""

    service: ClassVar[TokenizerService]
    token: ClassVar[bytes | None]

    _held: bytearray | None = None
    """The body so far of a request that may take the fast path."""
    _under_way = False
    """Whether a request is on the fast path: uvicorn does not know of it."""
    _last = False
    """Whether the connection ends with the answer that is under way."""

    def on_message_begin(self) -> None:
        """Begin a request; one that comes before the last was answered ends the connection after that answer."""
        self._last = self._last or self._under_way
        if not self._last:
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Keep a piece of the request's target."""
        if not self._last:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        if not self._last:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hold a request back until its body is there, when it may take the fast path."""
        if self._last:
            return
        if self._may_take_fast_path():
            self._held = bytearray()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        if self._last:
            return
        if self._held is None:
            super().on_body(body)
            return
        self._held += body
        if len(self._held) > SMALL_BYTES:
            self._leave_fast_path()

    def on_message_complete(self) -> None:
        """Send the request on its way."""
        if self._last:
            return
        if self._held is not None:
            body = bytes(self._held)
            if self._begin(_OPERATIONS[self.url], body):
                self._held = None
                return
            self._leave_fast_path()
        super().on_message_complete()

    def shutdown(self) -> None:
        """Close the connection, after the answer that is under way."""
        if self._under_way:
            self._last = True
        else:
            super().shutdown()

    def _may_take_fast_path(self) -> bool:
        if self.cycle is not None and not self.cycle.response_complete:
            return False
        if self.parser.get_method() != b"POST" or self.url not in _OPERATIONS or self.expect_100_continue:
            return False
        return is_trusted(self.token, dict(self.headers).get(_TOKEN))

    def _leave_fast_path(self) -> None:
        held, self._held = self._held, None
        super().on_headers_complete()
        super().on_body(bytes(held or b""))

    def _begin(self, operation: Operation, body: bytes) -> bool:
        def ended(outcome: Frame | ChildError) -> None:
            if isinstance(outcome, Frame) and outcome.kind == ReplyKind.DONE:
                self._reply(200, _JSON, outcome.payload)
                self.service.count.left(operation, entered, None)
                return
            task = self.loop.create_task(self._go_on(operation, body, outcome, entered))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

        if not self.service.begin(operation, body, ended):
            return False
        entered = self.service.count.entered()
        self._under_way = True
        self._last = not self.parser.should_keep_alive()
        return True

    async def _go_on(self, operation: Operation, body: bytes, outcome: Frame | ChildError, entered: float) -> None:
        """Answer a request whose first attempt was not its answer."""
        request_id = note_request_id(dict(self.headers).get(_REQUEST_ID))
        failure: BaseException | None = None
        try:
            self._reply(200, _JSON, await self.service.answer(operation, body, outcome))
        except ServiceError as error:
            failure = error
            self._refuse(error, request_id)
        except Exception as error:  # a process edge: the caller must get an answer
            failure = error
            log.exception("A request failed.", extra={"path": self.url.decode()})
            self._refuse(InternalError("Internal error."), request_id)
        finally:
            self.service.count.left(operation, entered, failure)

    def _refuse(self, error: ServiceError, request_id: bytes | None) -> None:
        fields = b"".join(b"%b: %b\r\n" % field for field in error_headers(error, request_id))
        self._reply(error.status, fields, error.body())

    def _reply(self, status: int, fields: bytes, body: bytes) -> None:
        """Write a whole answer, and let the connection wait for the next request or end."""
        self._under_way = False
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        close = b"connection: close\r\n" if self._last else b""
        head = b"%b%b%bcontent-length: %d\r\n\r\n" % (STATUS_LINE[status], fields, close, len(body))
        self.transport.write(head + body)
        if self._last:
            self.transport.close()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
