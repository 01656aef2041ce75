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

from conch_contracts.headers import INTERNAL_TOKEN, REQUEST_ID
from conch_contracts.records import Engine
from conch_gateway import body
from conch_gateway.admission import Claim
from conch_gateway.delivery import Delivery
from conch_gateway.dispatch import Dispatch
from conch_gateway.endpoints import CHAT, COMPLETIONS, Endpoint, Job, Understood
from conch_gateway.exchange import Exchange
from conch_gateway.metrics import GatewayMetrics
from conch_gateway.reply import Reply
from conch_gateway.stages import Stages
from conch_gateway.templates import DEFAULT_POLICY, TemplatePolicy
from conch_gateway.tokenizers import Tokenizers
from conch_gateway.upstream.port import Header
from conch_gateway.watch import Limits, Watch
from conch_kit.asgi import Receive
from conch_kit.errors import Unavailable
from conch_kit.snapshot import Snapshot
from conch_kit.tracing import Tracer

LARGE_BYTES = 64 * 1024
"""Bodies above this are parsed, validated and written in a thread."""

PATHS: Mapping[str, Endpoint[Any]] = {"/v1/chat/completions": CHAT, "/v1/completions": COMPLETIONS}
"""What this module serves, by POST."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Sizes and times that hold for every model."""

    max_body_bytes: int
    body_timeout_s: float
    keep_alive_s: float
    write_stall_s: float
    worker_grace_s: float


@dataclass(frozen=True, slots=True)
class Course:
    """What accompanies one request from the moment in which it is understood."""

    stages: Stages
    watch: Watch
    deadline: float
    """When the answer must be complete, on the monotonic clock."""


class Inference:
    """Serves the generating endpoints."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot | None],
        tokenizers: Tokenizers,
        dispatch: Dispatch,
        metrics: GatewayMetrics,
        bounds: Bounds,
        tracer: Tracer,
        *,
        internal_token: bytes | None = None,
        policy: TemplatePolicy = DEFAULT_POLICY,
    ) -> None:
        self._snapshot = snapshot
        self._tokenizers = tokenizers
        self._dispatch = dispatch
        self._metrics = metrics
        self._bounds = bounds
        self._tracer = tracer
        self._policy = policy
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
        deadline = time.monotonic() + understood.route.routing.timeout_s
        with self._tracer.span(endpoint.name, exchange.traceparent) as span:
            span.set("model", exchange.model)
            stages = Stages(self._tracer, span, self._metrics.of(exchange.model), self._headers(exchange))
            async with Watch(reply.client, comment, self._limits(deadline)) as watch:
                job = await self._tokenize(endpoint, understood, exchange, stages)
                await self._run(job, exchange, reply, Course(stages, watch, deadline))

    async def _understand(self, endpoint: Endpoint[Any], raw: bytes, exchange: Exchange) -> Understood:
        snapshot = self._snapshot()
        if snapshot is None:
            raise Unavailable("The models are not known yet.", code="model_not_ready", retry_after_s=1)
        if len(raw) > LARGE_BYTES:
            understood = await asyncio.to_thread(endpoint.understand, raw, snapshot, self._policy)
        else:
            understood = endpoint.understand(raw, snapshot, self._policy)
        if understood.request.request_id is not None:
            exchange.rename(understood.request.request_id)
        exchange.model = understood.route.served_names[0]
        if understood.unknown_fields:
            self._metrics.unknown_fields.inc(understood.unknown_fields)
        return understood

    async def _tokenize(
        self, endpoint: Endpoint[Any], understood: Understood, exchange: Exchange, stages: Stages
    ) -> Job:
        with stages.tokenizing() as headers:
            prepared = await self._tokenizers.prepare(understood.preparation, headers)
        ids = (exchange.request_id, understood.answer_id(urandom(16).hex()))
        created = int(time.time())
        if len(prepared) > LARGE_BYTES:
            return await asyncio.to_thread(Job.of, understood, prepared, ids=ids, created=created)
        return Job.of(understood, prepared, ids=ids, created=created)

    async def _run(self, job: Job, exchange: Exchange, reply: Reply, course: Course) -> None:
        route, progress, grace_s = job.understood.route, course.watch.progress, self._bounds.worker_grace_s
        delivery = Delivery(
            exchange,
            reply,
            progress,
            self._metrics.of(exchange.model),
            inter_token_patience_s=route.routing.inter_token_timeout_s + grace_s,
        )

        def message(engine: Engine) -> bytes:
            now = time.monotonic()
            if job.understood.stream:
                progress.asked = now
                progress.patience_s = route.routing.first_token_timeout_s + grace_s
            return job.message(engine, timeout_s=max(0.001, course.deadline - now))

        deliver = delivery.stream if job.understood.stream else delivery.whole
        claim = Claim(job.sequences, job.understood.priority)
        await self._dispatch.run(route, course.stages, claim, message, deliver)

    def _headers(self, exchange: Exchange) -> tuple[Header, ...]:
        return (REQUEST_ID.encode(), exchange.request_id.encode()), *self._token_header

    def _limits(self, deadline: float) -> Limits:
        """Return the gateway's own limits: the worker keeps the deadline, and tells the usage when it is over."""
        return Limits(
            deadline=deadline + self._bounds.worker_grace_s,
            keep_alive_s=self._bounds.keep_alive_s,
            write_stall_s=self._bounds.write_stall_s,
        )
