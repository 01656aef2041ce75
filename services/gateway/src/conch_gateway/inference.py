"""The flow of one generating request, as a list of steps; each step lives in a module of its own.

read → understand → tokenize → admit and place → deliver. Until the first byte goes out every failure is a status;
afterwards it is an error frame (`reply.py` decides).
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from os import urandom
from typing import Any, TypeVar

from conch_contracts.headers import INTERNAL_TOKEN, REQUEST_ID
from conch_contracts.records import Engine
from conch_gateway import body
from conch_gateway.delivery import Delivery, Keeper
from conch_gateway.dispatch import Dispatch
from conch_gateway.endpoints import CHAT, COMPLETIONS, Endpoint, Job, Understood
from conch_gateway.exchange import Exchange
from conch_gateway.metrics import GatewayMetrics
from conch_gateway.reply import Reply
from conch_gateway.stages import Stages
from conch_gateway.tokenizers import Tokenizers
from conch_gateway.upstream.port import Header
from conch_gateway.watch import Limits, Watch
from conch_kit.asgi import Receive
from conch_kit.errors import Unavailable
from conch_kit.snapshot import Snapshot
from conch_kit.tracing import Tracer

T = TypeVar("T")

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
    keeper: Keeper | None = None
    """Who gets the answer before the client hears that it is complete."""


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
    ) -> None:
        self._snapshot = snapshot
        self._tokenizers = tokenizers
        self._dispatch = dispatch
        self.metrics = metrics
        self._bounds = bounds
        self._tracer = tracer
        self._token_header: tuple[Header, ...] = (
            () if internal_token is None else ((INTERNAL_TOKEN.encode(), internal_token),)
        )

    async def serve(self, exchange: Exchange, receive: Receive, reply: Reply) -> None:
        """Answer one request on a path of `PATHS`; raises a ServiceError, ClientGone or ClientStalled."""
        endpoint = PATHS[exchange.path]
        exchange.endpoint = endpoint.name
        raw = await self.read(exchange, receive)
        understood = await self.understand(exchange, len(raw), partial(endpoint.understand, raw))
        await self.answer(understood, endpoint.id_prefix + urandom(16).hex(), exchange, reply)

    async def read(self, exchange: Exchange, receive: Receive) -> bytes:
        """Return the body of a request; raises a ServiceError or ClientGone."""
        body.check_media_type(exchange.headers)
        return await body.read(
            receive,
            exchange.headers,
            limit=self._bounds.max_body_bytes,
            timeout_s=self._bounds.body_timeout_s,
        )

    async def understand(
        self, exchange: Exchange, size: int, understand: Callable[[Snapshot], Understood]
    ) -> Understood:
        """Return what a body of this size asks for; raises a ServiceError."""
        snapshot = self._snapshot()
        if snapshot is None:
            raise Unavailable("The models are not known yet.", code="model_not_ready", retry_after_s=1)
        understood = await off_loop(size, understand, snapshot)
        exchange.model = understood.route.served_names[0]
        if understood.unknown_fields:
            self.metrics.unknown_fields.inc(understood.unknown_fields)
        return understood

    async def answer(
        self,
        understood: Understood,
        response_id: str,
        exchange: Exchange,
        reply: Reply,
        keeper: Keeper | None = None,
    ) -> None:
        """Do the work and deliver its answer, which a keeper gets before the client hears that it is complete."""
        comment = reply.keep_alive if understood.stream else None
        deadline = time.monotonic() + understood.route.routing.timeout_s
        with self._tracer.span(exchange.endpoint, exchange.traceparent) as span:
            span.set("model", exchange.model)
            stages = Stages(self._tracer, span, self.metrics.of(exchange.model), self._headers(exchange))
            async with Watch(reply.client, comment, self._limits(deadline)) as watch:
                job = await self._tokenize(understood, response_id, exchange, stages)
                await self._run(job, exchange, reply, Course(stages, watch, deadline, keeper))

    async def _tokenize(self, understood: Understood, response_id: str, exchange: Exchange, stages: Stages) -> Job:
        with stages.tokenizing() as headers:
            prepared = await self._tokenizers.prepare(understood.preparation, headers)
        ids = (exchange.request_id, response_id)
        created = int(time.time())
        return await off_loop(len(prepared), partial(Job.of, ids=ids, created=created), understood, prepared)

    async def _run(self, job: Job, exchange: Exchange, reply: Reply, course: Course) -> None:
        route, progress, grace_s = job.understood.route, course.watch.progress, self._bounds.worker_grace_s
        delivery = Delivery(
            exchange,
            reply,
            progress,
            self.metrics.of(exchange.model),
            inter_token_patience_s=route.routing.inter_token_timeout_s + grace_s,
            keeper=course.keeper,
        )

        def message(engine: Engine) -> bytes:
            now = time.monotonic()
            if job.understood.stream:
                progress.asked = now
                progress.patience_s = route.routing.first_token_timeout_s + grace_s
            return job.message(engine, timeout_s=max(0.001, course.deadline - now))

        deliver = delivery.stream if job.understood.stream else delivery.whole
        await self._dispatch.run(route, course.stages, job.sequences, message, deliver)

    def _headers(self, exchange: Exchange) -> tuple[Header, ...]:
        return (REQUEST_ID.encode(), exchange.request_id.encode()), *self._token_header

    def _limits(self, deadline: float) -> Limits:
        """Return the gateway's own limits: the worker keeps the deadline, and tells the usage when it is over."""
        return Limits(
            deadline=deadline + self._bounds.worker_grace_s,
            keep_alive_s=self._bounds.keep_alive_s,
            write_stall_s=self._bounds.write_stall_s,
        )


async def off_loop(size: int, work: Callable[..., T], *args: object) -> T:
    """Do some pure work, in a thread when it is about many bytes."""
    return await asyncio.to_thread(work, *args) if size > LARGE_BYTES else work(*args)
