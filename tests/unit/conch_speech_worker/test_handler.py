"""How a transcription ends, whatever happens to it: by its time, its caller, its decoder or its engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.dialects import speech as dialect
from conch_contracts.messages.transcription import TranscribeRequest, head_of
from conch_contracts.names import SERVER_SHUTTING_DOWN
from conch_kit.errors import InvalidRequest, ServiceError, UpstreamTimeout
from conch_kit.http.asgi import ClientGone
from conch_kit.http.request_scope import InFlightRequests
from conch_kit.triton.errors import EngineUnavailable
from conch_kit.triton.tensors import pack
from conch_speech_worker import handler as handler_module
from conch_speech_worker.handler import ChildBounds, TranscribeHandler
from conch_speech_worker.intake import IntakeLimits
from conch_speech_worker.metrics import SpeechWorkerMetrics
from testkit.builders.transcriptions import VOCABULARY, transcribe_request
from testkit.engines.scripted_triton import Caller
from testkit.models.tone_speech import spoken

SOUND = (spoken([3]) * 32_767).astype(np.int16).tobytes()
HEARD = {
    dialect.TOKEN_IDS: ("INT32", [VOCABULARY.first_time_id, 3, VOCABULARY.first_time_id + 10]),
    dialect.LOGPROBS: ("FP32", [-0.5] * 3),
    dialect.AVG_LOGPROB: ("FP32", [-0.5]),
    dialect.TEMPERATURE: ("FP32", [0.0]),
    dialect.FINISH_REASON: ("BYTES", [b"stop"]),
}


class Stage:
    """A handler whose decoder and engine do what a test wants."""

    def __init__(self) -> None:
        self.sound: list[bytes | Exception | asyncio.Event] = [SOUND, b""]
        self.dials = True
        self.decoding_now = 0
        self.decodes = asyncio.Event()
        self.measured = CollectorRegistry()
        itself: Any = self
        self.handler = TranscribeHandler(
            itself,
            itself,
            itself,
            InFlightRequests(),
            SpeechWorkerMetrics.register(self.measured),
            intake=IntakeLimits(10_000, 10_000),
            bounds=ChildBounds(1, 1, 1.0),
            engines=itself,
        )

    async def get(self, digest: object) -> object:
        return VOCABULARY

    async def dialled(self, target: object) -> object:
        if not self.dials:
            raise EngineUnavailable("It may not be dialled.")
        return target

    @asynccontextmanager
    async def decoding(self, file: int, limits: object) -> AsyncIterator[Any]:
        self.decoding_now += 1
        self.decodes.set()
        try:
            yield SimpleNamespace(read=self.read)
        finally:
            self.decoding_now -= 1

    async def read(self) -> bytes:
        piece = self.sound.pop(0)
        if isinstance(piece, asyncio.Event):
            await piece.wait()
            return b""
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def stream(self, *asked: object, **limits: float) -> AsyncIterator[ModelInferResponse]:
        response = ModelInferResponse()
        for name, (datatype, values) in HEARD.items():
            response.outputs.add(name=name, datatype=datatype, shape=[len(values)])
            response.raw_output_contents.append(pack(datatype, values))
        yield response

    async def ask(self, request: TranscribeRequest, kind: type[Caller] = Caller) -> Caller:
        caller = kind(head_of(request))
        await self.call(caller)
        return caller

    async def call(self, caller: Caller) -> None:
        scope: Any = caller.scope
        sends: Any = caller.send
        async with asyncio.timeout(30):
            await self.handler(scope, caller.receive, sends)

    def ended(self, outcome: str) -> float | None:
        return self.measured.get_sample_value("conch_speech_worker_requests_total", {"outcome": outcome})


async def test_a_file_is_heard_to_its_end() -> None:
    stage = Stage()
    caller = await stage.ask(transcribe_request())
    assert (caller.status, b"w03" in caller.body, stage.ended("ok"), stage.decoding_now) == (200, True, 1, 0)


async def test_a_file_that_takes_longer_than_its_request_may_is_given_up() -> None:
    stage = Stage()
    stage.sound = [SOUND, asyncio.Event()]
    with pytest.raises(UpstreamTimeout):
        await stage.ask(transcribe_request(timeout_s=0.05))
    assert (stage.ended("504"), stage.decoding_now) == (1, 0)


async def test_a_file_that_cannot_be_decoded_is_refused_in_the_decoders_words() -> None:
    stage = Stage()
    stage.sound = [InvalidRequest("It is broken.", param="file")]
    with pytest.raises(InvalidRequest, match="It is broken"):
        await stage.ask(transcribe_request())
    assert (stage.ended("400"), stage.decoding_now) == (1, 0)


async def test_an_engine_that_may_not_be_dialled_is_told_as_one_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.dials = False
    with pytest.raises(ServiceError) as refused:
        await stage.ask(transcribe_request())
    assert (refused.value.status, refused.value.retryable) == (503, True)
    assert "It may not be dialled." in str([record.__dict__ for record in caplog.records])


async def test_a_caller_that_goes_frees_the_decoder() -> None:
    stage = Stage()
    stage.sound = [SOUND, asyncio.Event()]
    caller = Caller(head_of(transcribe_request()))
    asked = asyncio.create_task(stage.call(caller))
    await asyncio.wait_for(stage.decodes.wait(), 30)
    caller.hang_up()
    await asked
    assert (stage.ended("client_gone"), stage.decoding_now, caller.status) == (1, 0, None)


async def test_work_that_the_end_of_the_server_cuts_says_so() -> None:
    stage = Stage()
    stage.sound = [SOUND, asyncio.Event()]
    asked = asyncio.create_task(stage.ask(transcribe_request()))
    await asyncio.wait_for(stage.decodes.wait(), 30)
    asked.cancel()
    with pytest.raises(ServiceError) as cut:
        await asked
    assert (cut.value.code, stage.decoding_now) == (SERVER_SHUTTING_DOWN, 0)


class HalfReading(Caller):
    """Reads nothing of an answer."""

    async def send(self, message: dict[str, object]) -> None:
        await asyncio.Event().wait()


async def test_a_caller_that_does_not_read_the_end_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_module, "_END_S", 0.01)
    with pytest.raises(ClientGone):
        await Stage().ask(transcribe_request(), HalfReading)
