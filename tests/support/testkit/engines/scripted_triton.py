"""A Triton client that plays scripts, for tests of what stands in front of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeAlias

from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

from conch_contracts.names import EngineAddress
from conch_kit.http.caller_connection import CONNECTION

Event: TypeAlias = ModelInferResponse | Exception | asyncio.Event
"""A message, an error that ends the call, or a gate at which the script waits."""


class ScriptedStream(AsyncIterator[ModelInferResponse]):
    """Plays one script."""

    def __init__(self, script: Sequence[Event], on_cancel: Callable[[], None]) -> None:
        self.rest_within_s: float | None = None
        """How long the rest may take in the background; None while somebody reads."""
        self._script = iter(script)
        self._on_cancel = on_cancel
        self._begun = self._ended = False

    async def __anext__(self) -> ModelInferResponse:
        self._begun = True
        for event in self._script:
            match event:
                case Exception():
                    self._ended = True
                    raise event
                case asyncio.Event():
                    await self._wait(event)
                case _:
                    return event
        self._ended = True
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Note that the call was cancelled, if it was under way."""
        if self._begun and not self._ended:
            self._ended = True
            self._on_cancel()

    def finish_in_background(self, within_s: float) -> None:
        """Note that the rest is read in the background."""
        self.rest_within_s = within_s

    async def _wait(self, gate: asyncio.Event) -> None:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            await self.aclose()
            raise


class ScriptedTriton:
    """Plays the n-th script to the n-th call and records how each ended."""

    def __init__(self, *scripts: Sequence[Event], config: ModelConfig | None = None) -> None:
        self.requests: list[ModelInferRequest] = []
        self.streams: list[ScriptedStream] = []
        self.timeouts: list[dict[str, float]] = []
        """What each call may take, by the names of the client's parameters."""
        self.most_bytes: list[int] = []
        """How long a message of each may be."""
        self.configs_read = 0
        self.cancelled: list[int] = []
        self._scripts = scripts
        self._config = config or ModelConfig()

    def stream(
        self,
        address: EngineAddress,
        request: ModelInferRequest,
        *,
        first_timeout_s: float,
        inter_timeout_s: float,
        timeout_s: float,
        most_bytes: int,
    ) -> "ScriptedStream":
        """Play the next script."""
        number = len(self.requests)
        stream = ScriptedStream(self._scripts[number], lambda: self.cancelled.append(number))
        self.requests.append(request)
        self.most_bytes.append(most_bytes)
        self.timeouts.append({"first": first_timeout_s, "inter": inter_timeout_s, "whole": timeout_s})
        self.streams.append(stream)
        return stream

    async def infer(
        self, address: EngineAddress, request: ModelInferRequest, *, timeout_s: float, most_bytes: int
    ) -> ModelInferResponse:
        """Return the only message of the next script."""
        number = len(self.requests)
        self.requests.append(request)
        self.most_bytes.append(most_bytes)
        self.timeouts.append({"whole": timeout_s})
        event = self._scripts[number][0]
        if isinstance(event, Exception):
            raise event
        assert isinstance(event, ModelInferResponse)
        return event

    async def model_config(self, address: EngineAddress, model: str) -> ModelConfig:
        """Return the config and count."""
        self.configs_read += 1
        return self._config


class Caller:
    """The other end of an ASGI call: sends one body, may hang up, and keeps what it is sent."""

    def __init__(self, body: bytes) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False
        self.on_body: Callable[[bytes], None] = lambda body: None
        self.on_gone: Callable[[], None] | None = None
        self._request: list[bytes] = [body]
        self._gone = asyncio.Event()

    @property
    def scope(self) -> dict[str, object]:
        """The ASGI scope of the call."""
        return {"type": "http", "extensions": {CONNECTION: {"port": self}}}

    @property
    def gone(self) -> bool:
        """Whether this side has hung up."""
        return self._gone.is_set()

    def hang_up(self) -> None:
        """Close the connection."""
        self._gone.set()
        if self.on_gone is not None:
            self.on_gone()

    async def receive(self) -> dict[str, object]:
        """Return the body once, then the hang-up."""
        if self._request:
            return {"type": "http.request", "body": self._request.pop(), "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, object]) -> None:
        """Keep a part of the answer."""
        assert not self.ended, "sent after the end"
        if message["type"] == "http.response.start":
            assert self.status is None, "a second status"
            self.status = message["status"]  # type: ignore[assignment]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}  # type: ignore[attr-defined]
            return
        assert self.status is not None, "a body before the status"
        body = message["body"]
        assert isinstance(body, bytes)
        self.body += body
        self.on_body(body)
        if not message.get("more_body", False):
            self.ended = True
        await asyncio.sleep(0)
