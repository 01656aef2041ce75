import asyncio
import contextlib
from collections.abc import Callable

import grpc
import pytest
from tritonclient.grpc.service_pb2 import ModelStreamInferResponse

from conch_kit.triton.errors import (
    EngineError,
    EngineLost,
    EngineRejected,
    EngineTimeout,
    EngineUnavailable,
    MalformedResponse,
    RequestOverdue,
)
from conch_kit.triton.message_parsing import MessageTooLarge
from conch_kit.triton.stream import Call, ClosingCalls, EngineStream, StreamTimeouts, translate
from conch_kit.triton.stream_call import CallFailed
from conch_kit.triton.tensors import is_final


class FakeCall:
    """A call that plays a script: messages, errors, and silence at its end until it is cancelled."""

    def __init__(self, *script: object) -> None:
        self._script = list(script)
        self._cancelled = asyncio.Event()
        self._done = False
        self._callbacks: list[Callable[[Call], None]] = []
        self.reads = 0
        self.heard_at = 0.0

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    async def read(self) -> object:
        self.reads += 1
        if self._script:
            step = self._script.pop(0)
            if isinstance(step, BaseException):
                raise step
            return step
        await self._cancelled.wait()
        raise asyncio.CancelledError

    def cancel(self) -> None:
        self._cancelled.set()
        self.close()

    def close(self) -> None:
        """End the call, as the server does when it has nothing more to say."""
        self._done = True
        while self._callbacks:
            self._callbacks.pop()(self)

    def done(self) -> bool:
        return self._done

    def add_done_callback(self, callback: Callable[[Call], None]) -> None:
        self._callbacks.append(callback)


def _message(*, final: bool = False, error: str = "") -> ModelStreamInferResponse:
    message = ModelStreamInferResponse(error_message=error)
    if not error:
        message.infer_response.parameters["triton_final_response"].bool_param = final
    return message


def _error(code: grpc.StatusCode) -> CallFailed:
    return CallFailed(code, "why")


def _stream(call: Call, *, first_s: float = 5.0, inter_s: float = 5.0) -> EngineStream:
    return EngineStream(lambda _: call, StreamTimeouts(first_s, inter_s), ClosingCalls())


async def test_a_stream_that_is_left_is_read_to_its_end_in_the_background() -> None:
    call, closing = FakeCall(_message(), _message(), _message(final=True)), ClosingCalls()
    stream = EngineStream(lambda _: call, StreamTimeouts(5, 5), closing)
    await anext(stream)
    stream.finish_in_background(within_s=60)
    assert not stream.ended
    call.close()
    await closing.wait()
    assert (stream.ended, call.reads, call.cancelled) == (True, 3, False)


async def test_a_stream_that_is_left_and_does_not_end_is_cancelled() -> None:
    call, closing = FakeCall(_message()), ClosingCalls()
    stream = EngineStream(lambda _: call, StreamTimeouts(5, 5), closing)
    await anext(stream)
    stream.finish_in_background(within_s=0.001)
    await closing.wait()
    assert (stream.ended, call.cancelled) == (True, True)


async def test_a_stream_that_ends_with_an_error_is_left_to_the_server_for_a_while() -> None:
    call, closing = FakeCall(_message(error="broken")), ClosingCalls(patience_s=0.01)
    stream = EngineStream(lambda _: call, StreamTimeouts(5, 5), closing)
    with pytest.raises(EngineError, match="broken"):
        await anext(stream)
    assert (stream.ended, call.cancelled) == (True, False)
    await closing.wait()
    assert call.cancelled


async def test_a_stream_that_has_ended_is_left_at_once() -> None:
    call, closing = FakeCall(_message(final=True)), ClosingCalls()
    stream = EngineStream(lambda _: call, StreamTimeouts(5, 5), closing)
    await anext(stream)
    stream.finish_in_background(within_s=60)
    call.close()
    await closing.wait()
    assert (call.reads, call.cancelled) == (1, False)


async def test_a_stream_ends_with_the_final_response() -> None:
    call = FakeCall(_message(), _message(), _message(final=True))
    stream = _stream(call)
    assert [is_final(response) async for response in stream] == [False, False, True]
    assert stream.ended
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_the_rpc_begins_with_the_first_read() -> None:
    started = []

    def start(stream: EngineStream) -> Call:
        started.append(stream)
        return FakeCall(_message(final=True))

    stream = EngineStream(start, StreamTimeouts(1, 1), ClosingCalls())
    assert started == []
    await anext(stream)
    assert started == [stream]


@pytest.mark.parametrize("messages", [0, 1])
@pytest.mark.parametrize(
    ("step", "first", "later"),
    [
        (_message(error="bad input"), EngineRejected, EngineRejected),
        (_message(error="Stub process 'm_0_0' is not healthy."), EngineUnavailable, EngineLost),
        (_message(error="Request for unknown model: 'm' is not found"), EngineUnavailable, EngineLost),
        (None, EngineUnavailable, EngineLost),
        (_error(grpc.StatusCode.UNAVAILABLE), EngineUnavailable, EngineLost),
        (_error(grpc.StatusCode.RESOURCE_EXHAUSTED), EngineUnavailable, EngineLost),
        (_error(grpc.StatusCode.DEADLINE_EXCEEDED), EngineTimeout, EngineTimeout),
        (_error(grpc.StatusCode.INVALID_ARGUMENT), EngineRejected, EngineRejected),
        (_error(grpc.StatusCode.INTERNAL), EngineRejected, EngineRejected),
        (_error(grpc.StatusCode.UNKNOWN), EngineRejected, EngineLost),
        (_error(grpc.StatusCode.CANCELLED), EngineRejected, EngineLost),
        (MessageTooLarge("64 MiB"), MalformedResponse, MalformedResponse),
    ],
)
async def test_what_goes_wrong_has_one_name_before_and_one_after_the_first_message(
    step: object, first: type[EngineError], later: type[EngineError], messages: int
) -> None:
    call = FakeCall(*[_message()] * messages, step)
    stream = _stream(call)
    with pytest.raises(later if messages else first):
        async for _ in stream:
            pass
    assert call.cancelled is not isinstance(step, ModelStreamInferResponse)  # then the server ends the call
    assert stream.ended


@pytest.mark.parametrize(("messages", "first"), [(0, True), (2, False)])
async def test_silence_is_cut_at_its_time_out(messages: int, first: bool) -> None:
    call = FakeCall(*[_message()] * messages)
    stream = _stream(call, first_s=5.0 if messages else 0.01, inter_s=0.01)
    with pytest.raises(EngineTimeout) as caught:
        async for _ in stream:
            pass
    assert caught.value.first is first
    assert "within 0.01 s" in str(caught.value)
    assert call.cancelled


async def test_a_slow_reader_is_no_silent_engine() -> None:
    call = FakeCall(_message(), _message(), _message(final=True))
    stream = _stream(call, first_s=0.01, inter_s=0.01)
    async for _ in stream:
        await asyncio.sleep(0.03)
    assert stream.ended


async def test_closing_cancels_at_once() -> None:
    call = FakeCall(_message())
    async with contextlib.aclosing(_stream(call)) as stream:
        await anext(stream)
        assert not call.cancelled
    assert call.cancelled


async def test_closing_before_the_first_read_starts_nothing() -> None:
    call = FakeCall()
    stream = _stream(call)
    await stream.aclose()
    assert call.reads == 0
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_cancelled_reader_cancels_the_request() -> None:
    call = FakeCall(_message())
    stream = _stream(call)
    await anext(stream)
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert call.cancelled


async def test_a_stream_closed_under_its_reader_does_not_cancel_the_reader() -> None:
    stream = _stream(FakeCall(_message()))
    await anext(stream)
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    stream.cancel()
    with pytest.raises(EngineLost, match="closed"):
        await reader


async def test_a_finished_request_waits_for_nobody_and_is_left_to_the_server_to_close() -> None:
    call, closing = FakeCall(_message(final=True)), ClosingCalls()
    async with contextlib.aclosing(EngineStream(lambda _: call, StreamTimeouts(5, 5), closing)) as stream:
        assert [is_final(response) async for response in stream] == [True]
        assert stream.ended
    assert call.reads == 1
    assert not call.cancelled
    call.close()
    await closing.wait()
    assert not call.cancelled


async def test_a_finished_call_that_the_server_does_not_close_is_cancelled() -> None:
    call, closing = FakeCall(_message(final=True)), ClosingCalls(patience_s=0.01)
    stream = EngineStream(lambda _: call, StreamTimeouts(5, 5), closing)
    assert len([response async for response in stream]) == 1
    async with asyncio.timeout(60):
        await closing.wait()
    assert call.cancelled


def test_an_error_keeps_what_grpc_said() -> None:
    assert translate(grpc.StatusCode.INTERNAL, "boom", started=False).message == "boom"


@pytest.mark.parametrize(("messages", "first"), [(0, True), (1, False)])
async def test_all_messages_share_one_deadline(messages: int, first: bool) -> None:
    call = FakeCall(*[_message()] * messages)
    stream = EngineStream(lambda _: call, StreamTimeouts(60, 60, total_s=0.02), ClosingCalls())
    with pytest.raises(RequestOverdue, match="time was over") as caught:
        async for _ in stream:
            pass
    assert (caught.value.first, call.cancelled) == (first, True)


async def test_a_reader_that_comes_behind_the_deadline_is_told() -> None:
    call = FakeCall(_message(), _message())
    stream = EngineStream(lambda _: call, StreamTimeouts(60, 60, total_s=0.02), ClosingCalls())
    await anext(stream)
    await asyncio.sleep(0.05)
    with pytest.raises(RequestOverdue, match="time was over"):
        await anext(stream)
    assert call.cancelled


async def test_a_reader_that_takes_its_time_does_not_make_the_engine_silent() -> None:
    call = FakeCall(_message(), _message(), _message(final=True))
    stream = _stream(call, first_s=0.02, inter_s=0.02)
    await anext(stream)
    await asyncio.sleep(0.1)  # the client reads nothing
    assert not call.cancelled
    assert [is_final(response) async for response in stream] == [False, True]
