"""Streams of calls over one HTTP/2 connection, against gRPC's own server: what it says of itself must be understood."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc.service_pb2_grpc import (
    GRPCInferenceServiceServicer,
    add_GRPCInferenceServiceServicer_to_server,
)

from conch_contracts.names import EngineAddress
from conch_kit.triton import stream_channel as module
from conch_kit.triton.message_limits import MAX_MESSAGE_BYTES
from conch_kit.triton.message_parsing import MessageTooLarge
from conch_kit.triton.stream_call import CallFailed, StreamCall
from conch_kit.triton.stream_channel import StreamChannel

Context = grpc.aio.ServicerContext[pb.ModelInferRequest, pb.ModelStreamInferResponse]
ROOM = 1024
"""What a message has beside its text."""


@dataclass
class Engine(GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Answers as the request's `model_version` says; what it was sent is counted."""

    entered: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    """Gets an item when a call waits that has sent its first message: before, gRPC ends a call without a word to it."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    peers: list[str] = field(default_factory=list)
    sent_bytes: list[int] = field(default_factory=list)
    left_s: list[float] = field(default_factory=list)

    async def ModelStreamInfer(  # noqa: N802
        self, requests: AsyncIterator[pb.ModelInferRequest], context: Context
    ) -> AsyncIterator[pb.ModelStreamInferResponse]:
        """Play the part that the request asks for."""
        async for request in requests:
            self.peers.append(context.peer())
            self.sent_bytes.append(request.ByteSize())
            self.left_s.append(context.time_remaining())
            self.entered.set()
            part, _, argument = request.model_version.partition(" ")
            match part:
                case "count":
                    for number in range(int(argument)):
                        yield _message(str(number))
                case "size":
                    tensors = pb.ModelInferResponse(raw_output_contents=[b"x" * int(argument)])
                    yield pb.ModelStreamInferResponse(infer_response=tensors)
                case "abort":
                    await context.abort(grpc.StatusCode[argument], "Über 100 % voll\n")
                case "wait":
                    yield _message("first")
                    self.waiting.put_nowait(None)
                    try:
                        await self.go_on.wait()
                    except asyncio.CancelledError:
                        self.cancelled.set()
                        raise
                    yield _message("last")


def _message(text: str) -> pb.ModelStreamInferResponse:
    return pb.ModelStreamInferResponse(error_message=text)


def _request(part: str, payload: bytes = b"") -> pb.ModelInferRequest:
    return pb.ModelInferRequest(model_name="engine", model_version=part, raw_input_contents=[payload])


async def _texts(call: StreamCall) -> list[str]:
    found = []
    while (message := await call.read()) is not None:
        tensors = message.infer_response.raw_output_contents
        found.append(tensors[0].decode() if tensors else message.error_message)
    return found


@asynccontextmanager
async def _serving(engine: Engine, port: int = 0) -> AsyncIterator[tuple[grpc.aio.Server, int]]:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]
    server = grpc.aio.server(options=options)
    add_GRPCInferenceServiceServicer_to_server(engine, server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield server, port
    finally:
        await server.stop(None)


@asynccontextmanager
async def _channel(port: int) -> AsyncIterator[StreamChannel]:
    channel = StreamChannel(EngineAddress(f"127.0.0.1:{port}"))
    try:
        yield channel
    finally:
        await channel.close()


@pytest.fixture
async def engine() -> Engine:
    return Engine()


@pytest.fixture
async def channel(engine: Engine) -> AsyncIterator[StreamChannel]:
    async with _serving(engine) as (_, port), _channel(port) as opened:
        yield opened


async def test_calls_side_by_side_share_one_connection(channel: StreamChannel, engine: Engine) -> None:
    calls = [channel.call(_request(f"count {count}"), timeout_s=60) for count in range(200)]
    assert [len(await _texts(call)) for call in calls] == list(range(200))
    assert len(set(engine.peers)) == 1


async def test_requests_and_answers_are_larger_than_any_window(channel: StreamChannel, engine: Engine) -> None:
    size = 12 * 1024 * 1024
    (text,) = await _texts(channel.call(_request(f"size {size}", b"y" * size), timeout_s=60))
    assert len(text) == size
    assert engine.sent_bytes[0] > size


async def test_the_largest_message_comes_whole_and_a_larger_one_is_refused(channel: StreamChannel) -> None:
    largest = MAX_MESSAGE_BYTES - ROOM
    (text,) = await _texts(channel.call(_request(f"size {largest}"), timeout_s=60))
    assert len(text) == largest
    with pytest.raises(MessageTooLarge):
        await _texts(channel.call(_request(f"size {MAX_MESSAGE_BYTES + ROOM}"), timeout_s=60))
    assert await _texts(channel.call(_request("count 2"), timeout_s=60)) == ["0", "1"]


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
async def test_a_status_comes_with_its_words(channel: StreamChannel, code: grpc.StatusCode) -> None:
    with pytest.raises(CallFailed) as caught:
        await _texts(channel.call(_request(f"abort {code.name}"), timeout_s=60))
    assert (caught.value.code, caught.value.message) == (code, "Über 100 % voll\n")


async def test_the_server_knows_the_deadline_and_keeps_it(channel: StreamChannel, engine: Engine) -> None:
    with pytest.raises(CallFailed) as caught:
        await _texts(channel.call(_request("wait"), timeout_s=0.5))
    assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert 0 < engine.left_s[0] <= 0.5


async def test_cancelling_reaches_the_server_and_no_other_call(channel: StreamChannel, engine: Engine) -> None:
    call, other = (channel.call(_request("wait"), timeout_s=60) for _ in range(2))
    assert (await call.read(), await other.read()) == (_message("first"), _message("first"))
    for _ in range(2):
        await engine.waiting.get()
    call.cancel()
    async with asyncio.timeout(10):
        await engine.cancelled.wait()
    engine.go_on.set()
    assert await _texts(other) == ["last"]


async def test_a_server_that_goes_ends_its_calls_and_the_next_one_goes_to_its_successor(engine: Engine) -> None:
    async with _serving(engine) as (server, port), _channel(port) as channel:
        running = channel.call(_request("wait"), timeout_s=60)
        assert await running.read() == _message("first")
        stopping = asyncio.create_task(server.stop(30))
        await _until_nobody_listens(port)
        engine.go_on.set()
        assert await _texts(running) == ["last"]
        await stopping
        async with _serving(engine, port):
            assert await _texts(channel.call(_request("count 1"), timeout_s=60)) == ["0"]


async def test_a_lost_server_breaks_its_calls_and_is_found_again(engine: Engine) -> None:
    async with _serving(engine) as (server, port), _channel(port) as channel:
        running = channel.call(_request("wait"), timeout_s=60)
        assert await running.read() == _message("first")
        await server.stop(0)
        with pytest.raises(CallFailed) as lost:
            await running.read()
        with pytest.raises(CallFailed) as nobody:
            await channel.call(_request("count 1"), timeout_s=60).read()
        assert nobody.value.code is grpc.StatusCode.UNAVAILABLE
        assert lost.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        async with _serving(engine, port):
            assert await _texts(channel.call(_request("count 1"), timeout_s=60)) == ["0"]


async def test_a_server_that_has_greeted_may_be_silent_for_longer_than_a_greeting_takes(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GREETING_S", 0.3)
    async with _serving(engine) as (_, port), _channel(port) as channel:
        running = channel.call(_request("wait"), timeout_s=60)
        assert await running.read() == _message("first")
        await asyncio.sleep(module._GREETING_S)
        engine.go_on.set()
        assert await _texts(running) == ["last"]


async def test_a_call_that_is_cancelled_while_nobody_answers_is_not_sent_later(engine: Engine) -> None:
    async with _serving(engine) as (_, port), _channel(port) as channel:
        channel.call(_request("count 1"), timeout_s=60).cancel()
        assert await _texts(channel.call(_request("count 2"), timeout_s=60)) == ["0", "1"]
        assert len(engine.sent_bytes) == 1


async def test_a_machine_that_takes_no_connection_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch_kit.triton.stream_channel._CONNECT_S", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        async with _channel(listener.getsockname()[1]) as channel:
            with pytest.raises(CallFailed, match="nobody answers") as failed:
                await asyncio.wait_for(_texts(channel.call(_request("count 1"), timeout_s=60)), 30)
    assert failed.value.code is grpc.StatusCode.UNAVAILABLE


async def _until_nobody_listens(port: int) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return
            writer.close()
            await writer.wait_closed()
