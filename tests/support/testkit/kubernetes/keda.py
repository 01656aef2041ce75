"""KEDA's side of an external scaler, over a real connection, and an API server's list of models for it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import grpc

from conch_operator.external_scaler.messages import SERVICE, message_types
from conch_operator.external_scaler.service import METRIC
from conch_operator.kubernetes.api.client import ApiError
from conch_operator.kubernetes.api.kinds import Kind, Object

_TYPES = message_types()


class ListedModels:
    """The ModelDeployments of the namespace `ns`, as a test changes them."""

    def __init__(self) -> None:
        self.items: dict[str, Object] = {}
        self.away = False
        """Whether the API server cannot be reached."""
        self.lists = 0
        self._changed: list[Callable[[], None]] = []
        self._version = 0

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call this at every change."""
        self._changed.append(changed)

    async def list_watched(self, kind: Kind, namespace: str | None) -> list[Object]:
        """Return what is there."""
        assert (kind.name, namespace) == ("ModelDeployment", None)
        if self.away:
            raise ApiError(0, "nobody answers")
        self.lists += 1
        return list(self.items.values())

    def put(self, name: str = "tiny", **spec: Any) -> None:
        """Make or change a model."""
        smallest = {"kind": "LLM", "source": {"path": "tiny"}, "engine": {"cpu": {}}}
        self.put_raw(name, smallest | spec)

    def put_raw(self, name: str, spec: Mapping[str, Any]) -> None:
        """Make or change one whose spec may be anything."""
        self._version += 1
        meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": self._version}
        meta |= {"creationTimestamp": "2026-01-01T00:00:00Z"}
        self.items[name] = {"metadata": meta, "spec": spec}
        self._tell()

    def says(self, name: str, ready: str) -> None:
        """Have the status of one say whether it is ready."""
        self.items[name] |= {"status": {"conditions": [{"type": "EngineReady", "status": ready}]}}
        self._tell()

    def remove(self, name: str) -> None:
        """Delete one."""
        del self.items[name]
        self._tell()

    def _tell(self) -> None:
        for changed in self._changed:
            changed()


class Keda:
    """Calls one operator; an async context manager."""

    def __init__(self, port: int, namespace: str = "ns") -> None:
        """Have ScaledObjects in this namespace."""
        self._namespace = namespace
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def is_active(self, name: str = "tiny", **metadata: str) -> bool:
        """Return what a poll says."""
        return bool((await self.call("IsActive", self._named(name, **metadata), "IsActiveResponse")).result)

    async def metric_spec(self, name: str = "tiny", **metadata: str) -> tuple[str, int, float]:
        """Return the metric that a HorizontalPodAutoscaler gets, and its target in both forms."""
        answer = await self.call("GetMetricSpec", self._named(name, **metadata), "GetMetricSpecResponse")
        return _spec_of(answer)

    async def metric(self, name: str = "tiny", metric: str = METRIC) -> tuple[str, int, float]:
        """Return what a metric is, in both forms."""
        request = _TYPES["GetMetricsRequest"](scaledObjectRef=self._named(name), metricName=metric)
        (value,) = (await self.call("GetMetrics", request, "GetMetricsResponse")).metricValues
        return value.metricName, value.metricValue, value.metricValueFloat

    async def call(self, method: str, request: Any, answer: str) -> Any:
        """Return what a method answers to a message, or to bytes."""
        return await self._method(self._channel.unary_unary, method, answer)(request, timeout=30)

    @asynccontextmanager
    async def activity(self, name: str = "tiny", **metadata: str) -> AsyncIterator[Callable[[], Any]]:
        """Open a stream, and give what waits for the next state; None is its end."""
        call = self._method(self._channel.unary_stream, "StreamIsActive", "IsActiveResponse")(
            self._named(name, **metadata), timeout=60
        )

        async def following() -> bool | None:
            message = await call.read()
            return None if message is grpc.aio.EOF else bool(message.result)

        try:
            yield following
        finally:
            call.cancel()

    @asynccontextmanager
    async def targets(self, name: str = "tiny") -> AsyncIterator[Callable[[], Any]]:
        """Open a stream of targets, likewise."""
        call = self._method(self._channel.unary_stream, "StreamMetricSpec", "GetMetricSpecResponse")(
            self._named(name), timeout=60
        )

        async def following() -> float:
            return _spec_of(await call.read())[2]

        try:
            yield following
        finally:
            call.cancel()

    def _named(self, name: str, **metadata: str) -> Any:
        """Return what KEDA says of a ScaledObject; it passes on what it reads itself."""
        given = {"scalerAddress": "conch-external-scaler.conch.svc:9092"} | metadata
        return _TYPES["ScaledObjectRef"](name=name, namespace=self._namespace, scalerMetadata=given)

    def _method(self, kind: Callable[..., Any], method: str, answer: str) -> Any:
        return kind(
            f"/{SERVICE}/{method}",
            request_serializer=lambda message: message if isinstance(message, bytes) else message.SerializeToString(),
            response_deserializer=_TYPES[answer].FromString,
        )


def _spec_of(answer: Any) -> tuple[str, int, float]:
    (spec,) = answer.metricSpecs
    return spec.metricName, spec.targetSize, spec.targetSizeFloat
