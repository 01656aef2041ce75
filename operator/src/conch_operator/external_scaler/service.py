"""Answers KEDA: whether a model has anything to do, how much, and for how much of it one engine is.

KEDA polls `IsActive` and `GetMetrics`, and keeps the two streams open: a pushed `true` starts an engine at once, a
pushed `false` it ignores (kedacore/keda#7116) and polls. A stream that ends by itself is opened again within 2 s, one
that fails after up to a minute; so what is not known for a while is no failure of a stream.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import grpc

from conch_operator.external_scaler.answers import ActivityNews, is_active, metric_of, needed
from conch_operator.external_scaler.asked_model import asked_model, per_engine
from conch_operator.external_scaler.errors import CallRefused
from conch_operator.external_scaler.heard_demand import HeardDemand
from conch_operator.external_scaler.messages import (
    SERVICE,
    ScaledObjectRef,
    active,
    metric_spec,
    metric_value,
    read_metrics_request,
    read_ref,
)
from conch_operator.external_scaler.watched_models import WatchedModels
from conch_operator.scaling.decision import ModelLoad

METRIC = "conch-sequences"

Context = Any
"""The call, as grpc.aio gives it: a `grpc.aio.ServicerContext`."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known of a model at one moment."""

    load: ModelLoad
    per_engine: float
    """How many sequences one engine is for."""
    engines: int
    """How many it is to have now."""


class ScalerService:
    """The methods of the service."""

    def __init__(
        self, models: WatchedModels, demand: HeardDemand, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._models = models
        self._demand = demand
        self._clock = clock
        self._ending = False
        self._streams: set[asyncio.Event] = set()

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what a server of gRPC calls."""
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "IsActive": unary(_answered(self._is_active)),
                "StreamIsActive": stream(_streamed(self._activity)),
                "GetMetricSpec": unary(_answered(self._metric_spec)),
                "StreamMetricSpec": stream(_streamed(self._metric_specs)),
                "GetMetrics": unary(_answered(self._metrics)),
            },
        )

    def end(self) -> None:
        """Let every stream end by itself: who reads it opens it again at another operator."""
        self._ending = True
        for news in self._streams:
            news.set()

    async def _is_active(self, raw: bytes) -> bytes:
        found = is_active((await self._found(read_ref(raw))).load)
        if found is None:
            raise _unknown()
        return active(found)

    async def _metric_spec(self, raw: bytes) -> bytes:
        return metric_spec(METRIC, (await self._found(read_ref(raw))).per_engine)

    async def _metrics(self, raw: bytes) -> bytes:
        request = read_metrics_request(raw)
        found = await self._found(request.ref)
        if request.metric != METRIC:
            message = f"There is no metric '{request.metric[:80]}' here; the one that there is is '{METRIC}'."
            raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, message)
        value = metric_of(found.load, found.per_engine, found.engines)
        if value is None:
            raise _unknown()
        return metric_value(METRIC, value)

    async def _activity(self, raw: bytes) -> AsyncGenerator[bytes, None]:
        said = ActivityNews()
        async with aclosing(self._looks(read_ref(raw))) as looks:
            async for found in looks:
                state = said.look(is_active(found.load), self._clock())
                if state is not None:
                    yield active(state)

    async def _metric_specs(self, raw: bytes) -> AsyncGenerator[bytes, None]:
        said = None
        async with aclosing(self._looks(read_ref(raw))) as looks:
            async for found in looks:
                if found.per_engine != said:
                    said = found.per_engine
                    yield metric_spec(METRIC, said)

    async def _looks(self, ref: ScaledObjectRef) -> AsyncGenerator[_Found, None]:
        """Look at once, with each record about the model, and about once a second while Redis is there."""
        news = asyncio.Event()
        self._streams.add(news)
        try:
            with self._demand.telling(asked_model(ref).id, news):
                while not self._ending:
                    news.clear()
                    yield await self._found(ref)
                    await news.wait()
        finally:
            self._streams.discard(news)

    async def _found(self, ref: ScaledObjectRef) -> _Found:
        """Return what is known of the model that is meant; raises CallRefused."""
        asked = asked_model(ref)
        model = await self._models.find(asked.id)
        load = needed(
            self._demand.of(asked.id),
            called=self._demand.is_called(asked.id),
            proven=model.ready or not model.desired.deployment.spec.waits_for_others,
        )
        return _Found(load, per_engine(model.desired, asked), model.desired.replicas)


def _unknown() -> CallRefused:
    return CallRefused(
        grpc.StatusCode.UNAVAILABLE,
        "Redis is away or was emptied, or not every gateway has said what it has to do: there may be more than is "
        "known, so nothing is said that would take an engine away. Ask again; if it lasts, look at Redis, at the "
        "gateways, and whether an operator holds the Lease.",
    )


def _answered(answer: Callable[[bytes], Awaitable[bytes]]) -> Callable[[bytes, Context], Awaitable[bytes]]:
    """Return the method that answers one message, or ends the call with a status."""

    async def method(raw: bytes, context: Context) -> bytes:
        try:
            return await answer(raw)
        except CallRefused as refused:
            await context.abort(refused.code, str(refused))
            raise  # never: abort has raised

    return method


def _streamed(
    answers: Callable[[bytes], AsyncGenerator[bytes, None]],
) -> Callable[[bytes, Context], AsyncIterator[bytes]]:
    """Return the method that answers many, likewise."""

    async def method(raw: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            async with aclosing(answers(raw)) as said:
                async for message in said:
                    yield message
        except CallRefused as refused:
            await context.abort(refused.code, str(refused))

    return method
