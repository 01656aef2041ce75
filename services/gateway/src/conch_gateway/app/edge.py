"""The outermost ASGI callable: checks the key, finds who answers, and records every request.

Inference POSTs go to their handlers, everything else to the endpoint of its path. What fails becomes an answer here.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from conch_contracts.names import SERVER_SHUTTING_DOWN
from conch_gateway.answers.protocols import protocol_of
from conch_gateway.answers.reply import Reply
from conch_gateway.http.auth import KEY_HEADERS, ApiKeys
from conch_gateway.http.client_connection import ClientConnection, client_connection
from conch_gateway.http.cors import Cors
from conch_gateway.http.exchange import Exchange, Outcome
from conch_gateway.http.paths import PathRequest, Paths
from conch_gateway.inference.watchdog import ClientStalled
from conch_gateway.telemetry.access_log import AccessLog
from conch_gateway.telemetry.load import Load
from conch_gateway.telemetry.metrics import GatewayMetrics
from conch_kit.errors import InternalError, ServiceError, Unavailable
from conch_kit.http.asgi import ClientGone, Receive, Scope, Send
from conch_kit.logs import request_id_var

log = logging.getLogger(__name__)

CLIENT_CLOSED = 499
"""Status of a request whose client went away; for the log, since nobody can be told."""


class PostHandler(Protocol):
    """Answers the POSTs on some paths."""

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request; raises a ServiceError, ClientGone or ClientStalled."""


class Edge:
    """The gateway as an ASGI application."""

    def __init__(
        self,
        posts: Mapping[str, PostHandler],
        paths: Paths,
        keys: ApiKeys,
        cors: Cors,
        metrics: GatewayMetrics,
        access_log: AccessLog,
        load: Load,
        *,
        write_stall_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._posts = posts
        self._paths = paths
        self._keys = keys
        self._cors = cors
        self._metrics = metrics
        self._access_log = access_log
        self._load = load
        self._write_stall_s = write_stall_s
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; never raises for what a client sent."""
        exchange = Exchange.begin(scope, now=self._clock())
        request_id_var.set(exchange.request_id)
        exchange.reply_headers.extend(self._cors.headers(exchange.headers))
        protocol = protocol_of(exchange.path, exchange.headers)
        if protocol.id_header is not None:
            exchange.reply_headers.append((protocol.id_header, exchange.request_id.encode()))
        client = client_connection(scope)
        reply = Reply(send, exchange, client, stall_s=self._write_stall_s, protocol=protocol, clock=self._clock)
        try:
            await self._answered_or_failed(exchange, reply, scope, receive)
        except (ClientGone, ClientStalled) as exc:
            await self._drop(exchange, client, stalled=isinstance(exc, ClientStalled))
        finally:
            duration_s = self._clock() - exchange.started
            self._metrics.finish(exchange, duration_s=duration_s)
            self._access_log.write(exchange, duration_s=duration_s)

    async def _answered_or_failed(self, exchange: Exchange, reply: Reply, scope: Scope, receive: Receive) -> None:
        """Answer, or say what went wrong; raises ClientGone or ClientStalled for a client that cannot be told."""
        try:
            await self._answer(exchange, reply, scope, receive)
        except ServiceError as exc:
            exchange.outcome = (
                Outcome.BROKEN if reply.begun else Outcome.FAILED if exc.status >= 500 else Outcome.REFUSED
            )
            await reply.fail(exc)
        except (ClientGone, ClientStalled):
            raise
        except asyncio.CancelledError:
            exchange.outcome = Outcome.CUT
            await reply.fail(Unavailable("The server is shutting down.", code=SERVER_SHUTTING_DOWN))
            raise
        except Exception:
            log.exception("A request failed unexpectedly.", extra={"path": exchange.path[:128]})
            exchange.outcome = Outcome.FAILED
            await reply.fail(InternalError("The server had an error while processing the request."))

    async def _answer(self, exchange: Exchange, reply: Reply, scope: Scope, receive: Receive) -> None:
        if exchange.method == "OPTIONS":
            await reply.whole(204, b"", self._cors.preflight(exchange.headers))
            return
        repeated = len(exchange.headers) != len(scope["headers"]) and any(
            _says_twice(scope, name) for name in KEY_HEADERS
        )
        exchange.key = self._keys.check(exchange.path, exchange.headers, repeated=repeated)
        if exchange.method == "POST" and exchange.path in self._posts:
            with self._load:
                await self._posts[exchange.path].serve(exchange, receive, reply)
        else:
            # What HEAD asks for is a GET whose body the server leaves out (RFC 9110, section 9.3.2).
            method = "GET" if exchange.method == "HEAD" else exchange.method
            endpoint, parts = self._paths.find(method, exchange.path)
            answer = await endpoint(PathRequest(exchange, parts, scope["query_string"].decode("latin-1"), receive))
            await reply.whole(answer.status, answer.body)
            exchange.outcome = Outcome.OK if answer.status < 400 else Outcome.FAILED

    async def _drop(self, exchange: Exchange, client: ClientConnection, *, stalled: bool) -> None:
        """Let go of a client that cannot be told anything any more."""
        exchange.status = CLIENT_CLOSED
        exchange.outcome = Outcome.STALLED if stalled else Outcome.GONE
        if stalled:
            client.abort()
            await asyncio.sleep(0)  # lets the server notice before the application returns


def _says_twice(scope: Scope, name: bytes) -> bool:
    return [key for key, _ in scope["headers"]].count(name) > 1
