"""The router of internal services: token, request id, trace, and errors as answers; nothing else on the way."""

import asyncio
import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from conch_contracts import headers
from conch_kit.errors import InternalError, MethodNotAllowed, NotFound, PermissionDenied, ServiceError
from conch_kit.http.asgi import ASGIApp, ClientGone, Handler, Message, Receive, Scope, Send, header, respond
from conch_kit.http.request_scope import shutting_down
from conch_kit.logs import request_id_var
from conch_kit.tracing import Tracer

log = logging.getLogger(__name__)

_REQUEST_ID = headers.REQUEST_ID.encode()
_TOKEN = headers.INTERNAL_TOKEN.encode()
_TRACEPARENT = headers.TRACEPARENT.encode()


def internal_app(handlers: Mapping[str, Handler], token: SecretStr | None, tracer: Tracer | None = None) -> ASGIApp:
    """Return an app that serves POST on these paths to callers who know the token; with a tracer each is a span."""
    traced = handlers if tracer is None else {path: _Traced(each, path, tracer) for path, each in handlers.items()}
    return _InternalApp(traced, None if token is None else token.get_secret_value().encode())


def is_trusted(token: bytes | None, given: bytes | None) -> bool:
    """Return whether a caller knows the token, if there is one."""
    return token is None or hmac.compare_digest(token, given or b"")


def note_request_id(request_id: bytes | None) -> bytes | None:
    """Let what is logged from here on carry the request's id, and return it."""
    request_id_var.set(None if request_id is None else request_id.decode("latin-1"))
    return request_id


def error_headers(error: ServiceError, request_id: bytes | None) -> list[tuple[bytes, bytes]]:
    """Return the headers of an error answer."""
    return [*error.headers()] if request_id is None else [*error.headers(), (_REQUEST_ID, request_id)]


@dataclass(frozen=True, slots=True)
class _Traced:
    handler: Handler
    name: str
    tracer: Tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.tracer.span(self.name, header(scope, _TRACEPARENT)):
            await self.handler(scope, receive, send)


class _InternalApp:
    def __init__(self, handlers: Mapping[str, Handler], token: bytes | None) -> None:
        self._handlers = dict(handlers)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = note_request_id(header(scope, _REQUEST_ID))
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._handler(scope)(scope, receive, watched)
        except ServiceError as error:
            if started:
                raise
            await _answer(send, error, request_id)
        except asyncio.CancelledError:  # of a request whose work has not begun, at the end of the server's drain
            if started:
                raise
            await _answer(send, shutting_down(), request_id)
        except ClientGone:
            log.debug("The caller hung up.", extra={"path": scope["path"]})
        except Exception:
            if started:
                raise
            log.exception("A request failed.", extra={"path": scope["path"]})
            await _answer(send, InternalError("Internal error."), request_id)

    def _handler(self, scope: Scope) -> Handler:
        if not is_trusted(self._token, header(scope, _TOKEN)):
            raise PermissionDenied("The internal token is missing or wrong.")
        handler = self._handlers.get(scope["path"])
        if handler is None:
            raise NotFound(f"Nothing is served under {scope['path']}.")
        if scope["method"] != "POST":
            raise MethodNotAllowed(f"{scope['path']} takes POST only.")
        return handler


async def _answer(send: Send, error: ServiceError, request_id: bytes | None) -> None:
    await respond(send, error.status, error.body(), error_headers(error, request_id))
