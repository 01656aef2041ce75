"""One request's stream of responses: it waits with a deadline, knows its end, and cancels at once when closed.

After the final response, or an error, the server closes the call by itself, and nobody waits for it: Triton 24.10 can
crash when a cancellation meets its final response, which models send behind an error, too. So a finished call is
cancelled only when the server has forgotten it. A caller who needs no more of a stream has its rest read in the
background. One deadline guards the whole stream and moves on when it is looked at: a token message must stay cheap.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, Self

import grpc
from tritonclient.grpc.service_pb2 import ModelInferResponse, ModelStreamInferResponse

from conch_kit.deadlines import deadlines, time_limit
from conch_kit.triton.errors import (
    EngineError,
    EngineFull,
    EngineLost,
    EngineTimeout,
    EngineUnavailable,
    MalformedResponse,
    RequestOverdue,
    from_message,
)
from conch_kit.triton.message_parsing import MessageTooLarge
from conch_kit.triton.stream_call import CallFailed
from conch_kit.triton.tensors import is_final

_CLOSING_S = 5.0
"""How long a server may take to close a finished call before it is cancelled: longer than a pause of its machine."""


class Call(Protocol):
    """The part of a gRPC stream call that is used here."""

    heard_at: float
    """When bytes of an answer came last, on the loop's clock."""

    async def read(self) -> ModelStreamInferResponse | None:
        """Return the next message, or None at the end; raise CallFailed, MessageTooLarge, CancelledError."""
        ...

    def cancel(self) -> None:
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
    """How long to wait for an engine's first message, for each other one, and for all of them, in seconds."""

    first_s: float
    inter_s: float
    total_s: float = math.inf


class _ClosingCall:
    """Cancels a call when its server takes too long to close it."""

    def __init__(self, call: Call, when: float) -> None:
        self.when = when
        self._call = call

    def due(self, now: float) -> None:
        """Cancel it, which makes it end, and that is the end of this."""
        self._call.cancel()


class ClosingCalls:
    """Calls whose answers nobody needs any more, kept until their servers have ended them."""

    def __init__(self, patience_s: float = _CLOSING_S) -> None:
        self._patience_s = patience_s
        self._closing: dict[Call, _ClosingCall] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._none_left = asyncio.Event()

    def add(self, call: Call) -> None:
        """Watch a call until the server closes it; cancel it when that takes too long."""
        if not call.done():
            closing = self._closing[call] = _ClosingCall(call, asyncio.get_running_loop().time() + self._patience_s)
            deadlines().add(closing)
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
        if self._closing:
            self._none_left.clear()
            await self._none_left.wait()

    def _closed(self, call: Call) -> None:
        closing = self._closing.pop(call, None)
        if closing is not None:
            deadlines().remove(closing)
        if not self._closing:
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
        self.when = 0.0
        """When to look next at how long the engine has been silent, on the loop's clock."""
        self._deadline = self._last_deadline = 0.0
        self._waiting = False
        self._timed_out = False
        self._started = False
        self._ended = False

    @property
    def heard_at(self) -> float:
        """When bytes of an answer came last, on the loop's clock, read or not."""
        return -math.inf if self._call is None else self._call.heard_at

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
            self._finish()
            raise from_message(message.error_message, started=self._started)
        response: ModelInferResponse = message.infer_response
        if is_final(response):
            self._finish()
        elif not self._started:
            self._look_in(self._timeouts.inter_s)
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
        deadlines().remove(self)

    async def _read(self) -> ModelStreamInferResponse:
        if self._call is None:
            self._call = self._start(self)
            self._last_deadline = asyncio.get_running_loop().time() + self._timeouts.total_s
            self._look_in(self._timeouts.first_s)
        message = await self._next()
        if message is None:
            text = "The engine closed the stream without a final response."
            raise EngineLost(text) if self._started else EngineUnavailable(text)
        return message

    async def _next(self) -> ModelStreamInferResponse | None:
        assert self._call is not None
        now = asyncio.get_running_loop().time()
        self._deadline = min(now + self._patience(), self._last_deadline)
        if self._deadline <= now:
            raise self._silence()
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
        except CallFailed as error:
            raise translate(error.code, error.message, started=self._started) from error
        except MessageTooLarge as error:
            raise MalformedResponse(str(error)) from error
        finally:
            self._waiting = False

    def _patience(self) -> float:
        return self._timeouts.inter_s if self._started else self._timeouts.first_s

    def _silence(self) -> EngineTimeout:
        if self._deadline == self._last_deadline:
            return _out_of_time(started=self._started)
        wait = "first message" if not self._started else "next message"
        return EngineTimeout(f"The engine sent no {wait} within {self._patience():g} s.", first=not self._started)

    def _look_in(self, delay_s: float) -> None:
        self.when = min(asyncio.get_running_loop().time() + delay_s, self._last_deadline)
        deadlines().add(self)

    def due(self, now: float) -> None:
        """Look whether the engine has been silent for too long."""
        if not self._waiting:
            if now < self._last_deadline:
                self._look_in(self._patience())
            else:  # the next wait sees it
                deadlines().remove(self)
        elif self._deadline > now:
            self._look_in(self._deadline - now)
        elif self._call is not None:
            deadlines().remove(self)
            self._timed_out = True
            self._call.cancel()


async def _read_out(stream: EngineStream, within_s: float) -> None:
    with suppress(TimeoutError, EngineError), time_limit(within_s):
        async for _ in stream:
            pass


def translate(code: grpc.StatusCode, message: str, *, started: bool) -> EngineError:
    """Return our error for gRPC's status; `started`: a message had come before."""
    match code:
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return _out_of_time(started=started)
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.RESOURCE_EXHAUSTED:
            if started:
                return EngineLost(message)
            said = from_message(message, started=False)
            return said if isinstance(said, EngineFull) else EngineUnavailable(message)
        case grpc.StatusCode.CANCELLED | grpc.StatusCode.UNKNOWN if started:
            return EngineLost(message)
        case _:
            return from_message(message, started=started)


def _out_of_time(*, started: bool) -> RequestOverdue:
    return RequestOverdue("The request's time was over before the engine had finished.", first=not started)
