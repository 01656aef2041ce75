"""One request's stream of responses: it waits with a deadline, knows its end, and cancels at once when closed.

After the final response the server closes the call by itself, and nobody waits for it: Triton 24.10 can crash when a
cancellation meets its final response, so a finished call is cancelled only when the server has forgotten it. A caller
who needs no more of a stream has its rest read in the background. One timer guards the whole stream and is pushed
forward, instead of one per message: a token message must stay cheap.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, Self

import grpc
from tritonclient.grpc.service_pb2 import ModelInferResponse, ModelStreamInferResponse

from conch_kit.triton.errors import (
    EngineError,
    EngineLost,
    EngineTimeout,
    EngineUnavailable,
    MalformedResponse,
    from_message,
)
from conch_kit.triton.tensors import is_final

_TOO_LARGE = "CLIENT: Received message larger than max"
"""What gRPC itself says of a response above our own limit; any engine would give one as large."""
_CLOSING_S = 5.0
"""How long a server may take to close a finished call before it is cancelled: longer than a pause of its machine."""


class Call(Protocol):
    """The part of a gRPC stream call that is used here."""

    async def read(self) -> ModelStreamInferResponse | object:
        """Return the next message, or the end-of-file mark."""
        ...

    def cancel(self) -> bool:
        """End the call at once."""
        ...

    def done(self) -> bool:
        """Return whether the call has ended on both sides."""
        ...

    def add_done_callback(self, callback: "Callable[[Call], None]") -> None:
        """Call back when it has."""
        ...


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """How long to wait for an engine, in seconds."""

    first_s: float
    inter_s: float


class ClosingCalls:
    """Calls whose answers nobody needs any more, kept until their servers have ended them."""

    def __init__(self, patience_s: float = _CLOSING_S) -> None:
        self._patience_s = patience_s
        self._timers: dict[Call, asyncio.TimerHandle] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._none_left = asyncio.Event()

    def add(self, call: Call) -> None:
        """Watch a call until the server closes it; cancel it when that takes too long."""
        if not call.done():
            self._timers[call] = asyncio.get_running_loop().call_later(self._patience_s, call.cancel)
            call.add_done_callback(self._closed)

    def read_out(self, stream: "EngineStream", within_s: float) -> None:
        """Read a stream to its end in the background; cancel it when that takes too long."""
        reader = asyncio.get_running_loop().create_task(_read_out(stream, within_s))
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)

    async def wait(self) -> None:
        """Wait until all are read out and closed, for each no longer than its own patience."""
        if self._readers:
            await asyncio.wait(self._readers)
        if self._timers:
            self._none_left.clear()
            await self._none_left.wait()

    def _closed(self, call: Call) -> None:
        timer = self._timers.pop(call, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._none_left.set()


class EngineStream(AsyncIterator[ModelInferResponse]):
    """The responses to one request, the final one last; the RPC begins with the first wait for one.

    Raises EngineError. A cancelled reader, `aclose()` and `cancel()` cancel the RPC at once.
    """

    def __init__(
        self, start: Callable[["EngineStream"], Call], timeouts: StreamTimeouts, closing: ClosingCalls
    ) -> None:
        self._start = start
        self._timeouts = timeouts
        self._closing = closing
        self._call: Call | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._waiting = False
        self._timed_out = False
        self._started = False
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether nothing more can come."""
        return self._ended

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelInferResponse:
        if self._ended:
            raise StopAsyncIteration
        try:
            message = await self._read()
        except BaseException:
            self.cancel()
            raise
        if message.error_message:
            self.cancel()
            raise from_message(message.error_message, started=self._started)
        response: ModelInferResponse = message.infer_response
        if is_final(response):
            self._finish()
        elif not self._started:
            self._arm(self._timeouts.inter_s)
        self._started = True
        return response

    async def aclose(self) -> None:
        """End the stream: cancel the request, unless it has ended by itself."""
        self.cancel()

    def finish_in_background(self, within_s: float) -> None:
        """Read the rest in the background; cancel the request when its end does not come in time."""
        if not self._ended:
            self._closing.read_out(self, within_s)

    def cancel(self) -> None:
        """Cancel the request now; does nothing when it has ended."""
        if not self._ended:
            self._end()
            if self._call is not None:
                self._call.cancel()

    def _finish(self) -> None:
        """Leave the call to the server to close."""
        self._end()
        if self._call is not None:
            self._closing.add(self._call)

    def _end(self) -> None:
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _read(self) -> ModelStreamInferResponse:
        if self._call is None:
            self._call = self._start(self)
            self._arm(self._timeouts.first_s)
        message = await self._next()
        if not isinstance(message, ModelStreamInferResponse):
            text = "The engine closed the stream without a final response."
            raise EngineLost(text) if self._started else EngineUnavailable(text)
        return message

    async def _next(self) -> ModelStreamInferResponse | object:
        assert self._call is not None
        self._deadline = asyncio.get_running_loop().time() + self._patience()
        self._waiting = True
        try:
            return await self._call.read()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            if self._timed_out:
                raise self._silence() from None
            raise EngineLost("The stream was closed while it was being read.") from None
        except grpc.aio.AioRpcError as error:
            raise translate(error, started=self._started) from error
        finally:
            self._waiting = False

    def _patience(self) -> float:
        return self._timeouts.inter_s if self._started else self._timeouts.first_s

    def _silence(self) -> EngineTimeout:
        wait = "first message" if not self._started else "next message"
        return EngineTimeout(f"The engine sent no {wait} within {self._patience():g} s.", first=not self._started)

    def _arm(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._check)

    def _check(self) -> None:
        remaining = self._deadline - asyncio.get_running_loop().time() if self._waiting else self._patience()
        if remaining > 0:
            self._arm(remaining)
        elif self._call is not None:
            self._timed_out = True
            self._call.cancel()


async def _read_out(stream: EngineStream, within_s: float) -> None:
    with suppress(TimeoutError, EngineError):
        async with asyncio.timeout(within_s):
            async for _ in stream:
                pass


def translate(error: grpc.aio.AioRpcError, *, started: bool) -> EngineError:
    """Return ours for gRPC's error; `started`: a message had come before."""
    message = error.details() or error.code().name
    match error.code():
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return EngineTimeout("The request's time was over before the engine had finished.", first=not started)
        case grpc.StatusCode.RESOURCE_EXHAUSTED if _TOO_LARGE in message:
            return MalformedResponse(message)
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.RESOURCE_EXHAUSTED:
            return EngineLost(message) if started else EngineUnavailable(message)
        case grpc.StatusCode.CANCELLED | grpc.StatusCode.UNKNOWN if started:
            return EngineLost(message)
        case _:
            return from_message(message, started=started)
