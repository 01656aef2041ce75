"""The flow of one generating request, as a list of steps; each step lives in a module of its own.

read → understand → tokenize → admit and place → deliver. Until the first byte goes out every failure is a status;
afterwards it is an error frame (`reply.py` decides).
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import urandom
from typing import Any

from conch_contracts.headers import INTERNAL_TOKEN, REQUEST_ID, TRACEPARENT
from conch_contracts.records import Engine
from conch_gateway import body
from conch_gateway.delivery import Delivery
from conch_gateway.dispatch import Dispatch
from conch_gateway.endpoints import CHAT, COMPLETIONS, Endpoint, Job, Understood
from conch_gateway.exchange import Exchange
from conch_gateway.metrics import GatewayMetrics
from conch_gateway.reply import Reply
from conch_gateway.tokenizers import Tokenizers
from conch_gateway.upstream.port import Header
from conch_gateway.watch import Limits, Watch
from conch_kit.asgi import Receive
from conch_kit.errors import Unavailable
from conch_kit.snapshot import Snapshot

LARGE_BYTES = 64 * 1024
"""Bodies above this are parsed, validated and written in a thread."""
SILENCE_GRACE_S = 5.0
"""Workers enforce the model's time-outs; the gateway steps in this much later, when the worker itself hangs."""

PATHS: Mapping[str, Endpoint[Any]] = {"/v1/chat/completions": CHAT, "/v1/completions": COMPLETIONS}
"""What this module serves, by POST."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Sizes and times that hold for every model."""

    max_body_bytes: int
    body_timeout_s: float
    keep_alive_s: float
    write_stall_s: float


class Inference:
    """Serves the generating endpoints."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot | None],
        tokenizers: Tokenizers,
        dispatch: Dispatch,
        metrics: GatewayMetrics,
        bounds: Bounds,
        *,
        internal_token: bytes | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._tokenizers = tokenizers
        self._dispatch = dispatch
        self._metrics = metrics
        self._bounds = bounds
        self._token_header: tuple[Header, ...] = (
            () if internal_token is None else ((INTERNAL_TOKEN.encode(), internal_token),)
        )

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request on a path of `PATHS`; raises a ServiceError, ClientGone or ClientStalled."""
        endpoint = PATHS[exchange.path]
        exchange.endpoint = endpoint.name
        body.check_media_type(exchange.headers)
        raw = await body.read(
            receive,
            exchange.headers,
            limit=self._bounds.max_body_bytes,
            timeout_s=self._bounds.body_timeout_s,
        )
        understood = await self._understand(endpoint, raw, exchange)
        comment = reply.keep_alive if understood.stream else None
        async with Watch(reply.client, comment, self._limits(understood)) as watch:
            job = await self._tokenize(endpoint, understood, exchange)
            await self._run(job, exchange, reply, watch)

    async def _understand(self, endpoint: Endpoint[Any], raw: bytes, exchange: Exchange) -> Understood:
        snapshot = self._snapshot()
        if snapshot is None:
            raise Unavailable("The models are not known yet.", code="model_not_ready", retry_after_s=1)
        if len(raw) > LARGE_BYTES:
            understood = await asyncio.to_thread(endpoint.understand, raw, snapshot)
        else:
            understood = endpoint.understand(raw, snapshot)
        exchange.model = understood.route.served_names[0]
        if understood.unknown_fields:
            self._metrics.unknown_fields.inc(understood.unknown_fields)
        return understood

    async def _tokenize(self, endpoint: Endpoint[Any], understood: Understood, exchange: Exchange) -> Job:
        prepared = await self._tokenizers.prepare(understood.preparation, self._headers(exchange))
        ids = (exchange.request_id, endpoint.id_prefix + urandom(16).hex())
        created = int(time.time())
        if len(prepared) > LARGE_BYTES:
            return await asyncio.to_thread(Job.of, understood, prepared, ids=ids, created=created)
        return Job.of(understood, prepared, ids=ids, created=created)

    async def _run(self, job: Job, exchange: Exchange, reply: Reply, watch: Watch) -> None:
        route = job.understood.route
        metrics = self._metrics.of(exchange.model)
        began = time.monotonic()
        deadline = began + route.routing.timeout_s
        delivery = Delivery(
            exchange,
            reply,
            watch.progress,
            metrics,
            inter_token_patience_s=route.routing.inter_token_timeout_s + SILENCE_GRACE_S,
        )

        def message(engine: Engine) -> bytes:
            now = time.monotonic()
            metrics.queue_wait.observe(now - began)
            if job.understood.stream:
                watch.progress.asked = now
                watch.progress.patience_s = route.routing.first_token_timeout_s + SILENCE_GRACE_S
            return job.message(engine, timeout_s=max(0.001, deadline - now))

        deliver = delivery.stream if job.understood.stream else delivery.whole
        metrics.in_flight.inc()
        try:
            await self._dispatch.run(route, self._headers(exchange), message, deliver)
        finally:
            metrics.in_flight.dec()

    def _headers(self, exchange: Exchange) -> tuple[Header, ...]:
        headers: tuple[Header, ...] = ((REQUEST_ID.encode(), exchange.request_id.encode()), *self._token_header)
        trace = exchange.traceparent
        return headers if trace is None else (*headers, (TRACEPARENT.encode(), trace))

    def _limits(self, understood: Understood) -> Limits:
        return Limits(
            deadline=time.monotonic() + understood.route.routing.timeout_s,
            keep_alive_s=self._bounds.keep_alive_s,
            write_stall_s=self._bounds.write_stall_s,
        )
