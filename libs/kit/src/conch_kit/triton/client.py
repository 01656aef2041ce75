"""Talks to Triton servers over raw gRPC: one bidirectional stream per request, one channel per address.

Streams have an HTTP/2 client of their own (`stream_channel.py`), a few times cheaper than gRPC's; all else is gRPC's. A
stream is half-closed right after its single write, because an open one holds a server's shutdown up. No keepalive
pings: engines may be other people's servers. Time-outs are ours, because a dead backend leaves streams silent while
its server calls itself ready.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar
from weakref import WeakKeyDictionary

import grpc
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from conch_contracts.names import EngineAddress
from conch_kit.side_by_side import end
from conch_kit.triton.checked_addresses import without_name
from conch_kit.triton.errors import EngineRejected, EngineUnavailable, MalformedResponse
from conch_kit.triton.message_limits import MAX_CONTROL_BYTES, MAX_MESSAGE_BYTES
from conch_kit.triton.message_parsing import MessageTooLarge, infer_response
from conch_kit.triton.stream import Call, ClosingCalls, EngineStream, StreamTimeouts, translate
from conch_kit.triton.stream_channel import StreamChannel, ends_of
from conch_kit.triton.tensors import EMPTY_FINAL_RESPONSE

T = TypeVar("T")

_TOO_LARGE = "CLIENT: Received message larger than max"
"""What gRPC itself says of a response above our own limit; any engine would give one as large."""
_HEARD_S = 10.0
"""Longer than a full engine takes for a token, but while it takes in long prompts."""
_INFER = "/inference.GRPCInferenceService/ModelInfer"
_OPTIONS = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 2000),  # in spite of its name: how long one attempt to connect may take
)


@dataclass(frozen=True, slots=True)
class RepositoryEntry:
    """One row of a server's repository index."""

    name: str
    version: str
    state: str
    reason: str


@dataclass(slots=True)
class _Peer:
    channels: tuple[grpc.aio.Channel, ...]
    infer: Callable[..., Awaitable[bytes]]
    """Gives answers as they came: they are measured before they are parsed."""
    control: GRPCInferenceServiceStub
    """For what is about models: no server has reason to say much there."""
    calls: StreamChannel
    used_at: float
    streams: WeakKeyDictionary[EngineStream, str] = field(default_factory=WeakKeyDictionary)
    """Each with the model that it is of."""

    async def close(self) -> None:
        """Close both kinds of connections."""
        await self.calls.close()
        for channel in self.channels:
            await channel.close()


class TritonClient:
    """All gRPC connections of this process to engines. A channel that nobody used for a while is closed."""

    def __init__(
        self,
        *,
        idle_close_s: float = 300.0,
        most_bytes: int = MAX_MESSAGE_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most_bytes` is how long a message of an answer may be."""
        self._most_bytes = most_bytes
        self._idle_close_s = idle_close_s
        self._clock = clock
        self._peers: dict[EngineAddress, _Peer] = {}
        self._closing = ClosingCalls()
        self._sweeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._sweeper = asyncio.create_task(self._sweep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sweeper is not None:
            await end(self._sweeper)
        await self._closing.wait()
        for address in list(self._peers):
            await self._peers.pop(address).close()

    def stream(
        self,
        address: EngineAddress,
        request: pb.ModelInferRequest,
        *,
        first_timeout_s: float,
        inter_timeout_s: float,
        timeout_s: float,
        most_bytes: int | None = None,
    ) -> EngineStream:
        """Return the responses to one request, the final one last. Closing it cancels the request at once.

        `most_bytes` is how long each may be, where this request brings less than what the client takes of any.
        """
        request.parameters[EMPTY_FINAL_RESPONSE].bool_param = True

        def start(stream: EngineStream) -> Call:
            peer = self._peer(address)
            peer.streams[stream] = request.model_name
            return peer.calls.call(request, timeout_s=timeout_s, most_bytes=most_bytes or self._most_bytes)

        return EngineStream(start, StreamTimeouts(first_timeout_s, inter_timeout_s, timeout_s), self._closing)

    def streaming(self) -> frozenset[tuple[EngineAddress, str]]:
        """Return the engines, each with a model, that have sent a message of an open stream within the last 10 s.

        The address is the one that was named, where another one was dialled for it.
        """
        oldest = asyncio.get_running_loop().time() - _HEARD_S
        return frozenset(
            (_as_named(address), model)
            for address, peer in self._peers.items()
            for stream, model in peer.streams.items()
            if not stream.ended and stream.heard_at >= oldest
        )

    async def reach(self, address: EngineAddress, *, timeout_s: float = 2.0) -> None:
        """Return when a server takes a connection there; raises EngineUnavailable where none does.

        gRPC dials who did not listen again after up to a second only: who asks a server that starts looks here first.
        """
        (host, port), *_ = ends_of(without_name(address)[0])
        try:
            async with asyncio.timeout(timeout_s):
                _, writer = await asyncio.open_connection(host, port)
        except OSError as error:
            raise EngineUnavailable(str(error) or f"nobody took a connection within {timeout_s:g} s") from error
        writer.transport.abort()

    async def infer(
        self,
        address: EngineAddress,
        request: pb.ModelInferRequest,
        *,
        timeout_s: float,
        most_bytes: int | None = None,
    ) -> pb.ModelInferResponse:
        """Return the one response of a model that is not decoupled; `most_bytes` as in `stream`."""
        message = await _unary(self._peer(address).infer(request, timeout=timeout_s))
        if most_bytes is not None and len(message) > most_bytes:
            raise MalformedResponse(f"The engine sends a message of {len(message)} bytes; {most_bytes} are allowed.")
        try:
            return infer_response(message)
        except (MessageTooLarge, DecodeError) as error:
            raise MalformedResponse(str(error)) from error

    async def model_config(self, address: EngineAddress, model: str, *, timeout_s: float = 5.0) -> ModelConfig:
        """Return a model's configuration as the server completed it."""
        request = pb.ModelConfigRequest(name=model)
        answer = await _unary(self._peer(address).control.ModelConfig(request, timeout=timeout_s))
        config: ModelConfig = answer.config
        return config

    async def model_ready(self, address: EngineAddress, model: str, *, timeout_s: float = 5.0) -> bool:
        """Return whether the server says that it can serve the model."""
        request = pb.ModelReadyRequest(name=model)
        try:
            answer = await _unary(self._peer(address).control.ModelReady(request, timeout=timeout_s))
        except EngineRejected:
            return False
        return bool(answer.ready)

    async def repository_index(self, address: EngineAddress, *, timeout_s: float = 5.0) -> list[RepositoryEntry]:
        """Return every model that the server knows, with its state and why it is so."""
        request = pb.RepositoryIndexRequest()
        answer = await _unary(self._peer(address).control.RepositoryIndex(request, timeout=timeout_s))
        return [RepositoryEntry(row.name, row.version, row.state, row.reason) for row in answer.models]

    async def load_model(self, address: EngineAddress, model: str, *, timeout_s: float) -> None:
        """Have a server with explicit model control load a model of its repository; return when it is ready.

        Raises EngineRejected with the cause where it cannot be loaded. Who gives up stops nothing: the server goes on.
        """
        request = pb.RepositoryModelLoadRequest(model_name=model)
        await _unary(self._peer(address).control.RepositoryModelLoad(request, timeout=timeout_s))

    async def unload_model(self, address: EngineAddress, model: str, *, timeout_s: float) -> None:
        """Have such a server take no new request for a model and drop it once those that it has are done.

        It may return before that.
        """
        request = pb.RepositoryModelUnloadRequest(model_name=model)
        await _unary(self._peer(address).control.RepositoryModelUnload(request, timeout=timeout_s))

    def _peer(self, address: EngineAddress) -> _Peer:
        peer = self._peers.get(address)
        if peer is None:
            target, name = without_name(address)
            options = _OPTIONS if name is None else (*_OPTIONS, ("grpc.default_authority", name))
            channels = tuple(
                grpc.aio.insecure_channel(target, options=(*options, ("grpc.max_receive_message_length", most)))
                for most in (self._most_bytes, MAX_CONTROL_BYTES)
            )
            infer = channels[0].unary_unary(_INFER, request_serializer=pb.ModelInferRequest.SerializeToString)
            control = GRPCInferenceServiceStub(channels[1])
            calls = StreamChannel(address)
            peer = self._peers[address] = _Peer(channels, infer, control, calls, self._clock())
        peer.used_at = self._clock()
        return peer

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._idle_close_s / 4)
            await self.close_idle()

    async def close_idle(self) -> None:
        """Close the channels that nobody used for a while."""
        oldest = self._clock() - self._idle_close_s
        for address, peer in list(self._peers.items()):
            if peer.used_at < oldest and all(stream.ended for stream in peer.streams):
                await self._peers.pop(address).close()


def _as_named(address: EngineAddress) -> EngineAddress:
    target, name = without_name(address)
    return EngineAddress(name or target)


async def _unary(call: Awaitable[T]) -> T:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        message = error.details() or error.code().name
        if _TOO_LARGE in message:
            raise MalformedResponse(message) from error
        raise translate(error.code(), message, started=False) from error
