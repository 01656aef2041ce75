"""One request's stream of responses: it waits with a deadline, knows its end, and cancels at once when closed.

One timer guards the whole stream and is pushed forward, instead of one per message: a token message must stay cheap.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol, Self

import grpc
from tritonclient.grpc.service_pb2 import ModelInferResponse, ModelStreamInferResponse

from conch_kit.triton.errors import (
    EngineError,
    EngineLost,
    EngineTimeout,
    EngineUnavailable,
    from_message,
)
from conch_kit.triton.tensors import is_final

_END_WAIT_S = 0.5
"""How long a finished request waits for the server to close the stream before cancelling it."""


class Call(Protocol):
    """The part of a gRPC stream call that is used here."""

    async def read(self) -> ModelStreamInferResponse | object:
        """Return the next message, or the end-of-file mark."""
        ...

    def cancel(self) -> bool:
        """End the call at once."""
        ...


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """How long to wait for an engine, in seconds."""

    first_s: float
    inter_s: float


class EngineStream(AsyncIterator[ModelInferResponse]):
    """The responses to one request, the final one last; the RPC begins with the first wait for one.

    Raises EngineError. A cancelled reader, `aclose()` and `cancel()` cancel the RPC at once.
    """

    def __init__(self, start: Callable[["EngineStream"], Call], timeouts: StreamTimeouts) -> None:
        self._start = start
        self._timeouts = timeouts
        self._call: Call | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._waiting = False
        self._timed_out = False
        self._started = False
        self._final = False
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether nothing more can come and nothing is left running."""
        return self._ended

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelInferResponse:
        if self._final:
            await self.aclose()
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
        self._final = is_final(response)
        if not self._started:
            self._started = True
            self._arm(self._timeouts.inter_s)
        return response

    async def aclose(self) -> None:
        """End the stream; a finished request is left to the server to close, any other is cancelled."""
        if self._final and not self._ended and self._call is not None:
            self._arm(_END_WAIT_S)
            try:
                await self._next()
            except EngineError:
                pass
            finally:
                self.cancel()
        self.cancel()

    def cancel(self) -> None:
        """Cancel the request now; does nothing when it has ended."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._call is not None:
            self._call.cancel()

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
        if self._final:
            return _END_WAIT_S
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


def translate(error: grpc.aio.AioRpcError, *, started: bool) -> EngineError:
    """Return ours for gRPC's error; `started`: a message had come before."""
    message = error.details() or error.code().name
    match error.code():
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return EngineTimeout("The request's time was over before the engine had finished.", first=not started)
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.RESOURCE_EXHAUSTED:
            return EngineLost(message) if started else EngineUnavailable(message)
        case grpc.StatusCode.CANCELLED | grpc.StatusCode.UNKNOWN if started:
            return EngineLost(message)
        case _:
            return from_message(message, started=started)
