"""Speaks the `speech` dialect with a real engine and collects whole answers."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from tritonclient.grpc.service_pb2 import ModelInferRequest

from conch_contracts.dialects import speech as dialect
from conch_contracts.names import EngineAddress
from conch_kit.triton.client import TritonClient
from conch_kit.triton.tensors import Outputs, add_input, add_raw, new_request


@dataclass(slots=True)
class WindowAnswer:
    """All that came back for one window."""

    language_id: int | None = None
    no_speech_prob: float | None = None
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    avg_logprob: float | None = None
    temperature: float | None = None
    times: tuple[float, ...] | None = None
    finish_reason: str | None = None
    signs_of_life: int = 0
    """Messages that told nothing."""


@dataclass(frozen=True, slots=True)
class SpeechEngineClient:
    """One model on one engine."""

    client: TritonClient
    address: EngineAddress
    model: str

    async def transcribe(self, pcm: bytes, prompt: Sequence[int], **parameters: object) -> WindowAnswer:
        """Run one window to its end; the parameters are sent as they are, valid or not."""
        answer = WindowAnswer()
        async for outputs in self.messages(speech_request(self.model, pcm, prompt, **parameters)):
            _collect(answer, outputs)
        return answer

    async def messages(self, request: ModelInferRequest) -> AsyncGenerator[Outputs, None]:
        """Send a request and give each message of its answer; closing this cancels it."""
        stream = self.client.stream(self.address, request, first_timeout_s=120, inter_timeout_s=120, timeout_s=120)
        async with aclosing(stream):
            async for response in stream:
                yield Outputs(response)


def speech_request(model: str, pcm: bytes, prompt: Sequence[int], **parameters: object) -> ModelInferRequest:
    """Return the request for a window of 16-bit samples."""
    request = new_request(model, "")
    add_raw(request, dialect.PCM, "INT16", [len(pcm) // 2], pcm)
    add_input(request, dialect.PROMPT_IDS, "INT32", [len(prompt)], list(prompt))
    asked = json.dumps({"max_tokens": 60, **parameters}).encode()
    add_input(request, dialect.PARAMETERS, "BYTES", [1], [asked])
    return request


def _collect(answer: WindowAnswer, outputs: Outputs) -> None:
    if outputs.has(dialect.LANGUAGE_ID):
        assert answer.language_id is None, "the language was told twice"
        (answer.language_id,) = outputs.ints(dialect.LANGUAGE_ID)
        (answer.no_speech_prob,) = outputs.floats(dialect.NO_SPEECH_PROB)
    elif not outputs.has(dialect.FINISH_REASON):
        answer.signs_of_life += 1
    if not outputs.has(dialect.FINISH_REASON):
        assert outputs.ints(dialect.TOKEN_IDS) == ()
        return
    answer.finish_reason = outputs.texts(dialect.FINISH_REASON)[0].decode()
    answer.tokens = outputs.ints(dialect.TOKEN_IDS)
    answer.logprobs = outputs.floats(dialect.LOGPROBS)
    (answer.avg_logprob,) = outputs.floats(dialect.AVG_LOGPROB)
    (answer.temperature,) = outputs.floats(dialect.TEMPERATURE)
    if outputs.has(dialect.TOKEN_TIMES):
        answer.times = outputs.floats(dialect.TOKEN_TIMES)
