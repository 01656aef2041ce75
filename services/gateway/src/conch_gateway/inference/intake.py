"""What all inference endpoints have in common: the body in its bounds, the known models, and what accompanies the work.

An endpoint's own `resolve` is pure and says what a body asks for; everything around it is here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol, TypeVar

from conch_contracts.headers import INTERNAL_TOKEN, REQUEST_ID
from conch_contracts.records import Route
from conch_gateway.http import body
from conch_gateway.http.client_connection import ClientConnection
from conch_gateway.http.exchange import Exchange
from conch_gateway.http.max_wait import max_wait_s
from conch_gateway.inference.stages import Stages
from conch_gateway.inference.watchdog import RequestWatchdog, WatchdogLimits
from conch_gateway.settings import GatewaySettings
from conch_gateway.telemetry.metrics import GatewayMetrics
from conch_gateway.upstream.port import Header
from conch_kit.errors import Unavailable
from conch_kit.http.asgi import Receive
from conch_kit.registry.snapshot import Snapshot
from conch_kit.tracing import Span, Tracer

LARGE_BYTES = 64 * 1024
"""Bodies above this are parsed, validated and written in a thread."""


class ResolvedRequest(Protocol):
    """What every endpoint knows of a valid request."""

    @property
    def route(self) -> Route:
        """The model."""

    @property
    def unknown_fields(self) -> int:
        """How many of the request's fields nobody knows."""


U = TypeVar("U", bound=ResolvedRequest)
T = TypeVar("T")


class RequestIntake:
    """Reads requests within the gateway's bounds, and surrounds the work on them."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot | None],
        metrics: GatewayMetrics,
        settings: GatewaySettings,
        tracer: Tracer,
    ) -> None:
        self.metrics = metrics
        self.settings = settings
        self._snapshot = snapshot
        self._tracer = tracer
        token = settings.internal_token
        self._token_header: tuple[Header, ...] = (
            () if token is None else ((INTERNAL_TOKEN.encode(), token.get_secret_value().encode()),)
        )

    async def read_and_resolve(
        self, exchange: Exchange, receive: Receive, resolve: Callable[[bytes, Snapshot], U]
    ) -> U:
        """Read a body and return what it asks for; raises a ServiceError or ClientGone."""
        raw = await self.read(exchange, receive)
        return await self.resolve(exchange, len(raw), partial(resolve, raw))

    async def read(self, exchange: Exchange, receive: Receive) -> bytes:
        """Return the body of a request; raises a ServiceError or ClientGone."""
        body.check_media_type(exchange.headers)
        return await body.read(receive, exchange.headers, limit=self.settings.max_body_bytes)

    async def resolve(self, exchange: Exchange, size: int, resolve: Callable[[Snapshot], U]) -> U:
        """Return what a body of this size asks for, now that the models are known; raises a ServiceError."""
        exchange.body_bytes = size
        exchange.max_wait_s = max_wait_s(exchange.headers)
        snapshot = self._snapshot()
        if snapshot is None:
            raise Unavailable("The models are not known yet.", code="model_not_ready", retry_after_s=1)
        resolved = await off_loop(size, resolve, snapshot)
        exchange.model = resolved.route.served_names[0]
        if resolved.unknown_fields:
            self.metrics.unknown_fields.inc(resolved.unknown_fields)
        return resolved

    def span(self, exchange: Exchange) -> AbstractContextManager[Span]:
        """Surround the work on a request that is resolved, in the trace that the client began."""
        return self._tracer.span(exchange.endpoint, exchange.traceparent)

    def stages(self, exchange: Exchange, span: Span) -> Stages:
        """Return the stages of the request in its span."""
        span.set("model", exchange.model)
        span.set("request_id", exchange.request_id)
        headers = (REQUEST_ID.encode(), exchange.request_id.encode()), *self._token_header
        return Stages(self._tracer, span, self.metrics.of(exchange.model), headers)

    def watchdog(
        self, client: ClientConnection, deadline: float, comment: Callable[[], Awaitable[None]] | None = None
    ) -> RequestWatchdog:
        """Return the watchdog of a request while it is worked on, until `deadline` on the monotonic clock.

        The gateway's own limit comes a little later: the worker keeps the deadline, and tells the usage at its end.
        """
        settings = self.settings
        limits = WatchdogLimits(deadline + settings.worker_grace_s, settings.keep_alive_s)
        return RequestWatchdog(client, comment, limits)


async def off_loop(size: int, work: Callable[..., T], *args: object) -> T:
    """Do some pure work, in a thread when it is about many bytes."""
    return await asyncio.to_thread(work, *args) if size > LARGE_BYTES else work(*args)
