"""One window that an engine hears: what it may answer, and what cannot be an answer."""

import math
from collections.abc import AsyncIterator, Mapping
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.dialects import speech as dialect
from conch_kit.triton.errors import EngineError, EngineLost, MalformedResponse
from conch_kit.triton.message_limits import MAX_CONTROL_BYTES
from conch_kit.triton.tensors import pack
from conch_speech_worker.engine.speech import SpeechCalls
from conch_speech_worker.transcript.segments import HeardWindow
from testkit.builders.transcriptions import VOCABULARY, transcribe_request

TOLD = {dialect.LANGUAGE_ID: ("INT32", [1]), dialect.NO_SPEECH_PROB: ("FP32", [0.25])}
HEARD = {
    dialect.TOKEN_IDS: ("INT32", [5, 6]),
    dialect.LOGPROBS: ("FP32", [-0.5, -0.25]),
    dialect.TOKEN_TIMES: ("FP32", [0.0, 0.5, 1.0]),
    dialect.AVG_LOGPROB: ("FP32", [-0.5]),
    dialect.TEMPERATURE: ("FP32", [0.0]),
    dialect.FINISH_REASON: ("BYTES", [b"stop"]),
}


class Engine:
    """Gives these messages, and then ends its stream."""

    def __init__(self, *messages: Mapping[str, tuple[str, list[Any]]]) -> None:
        self._messages = messages
        self.limits: dict[str, float] = {}

    async def stream(self, *asked: object, **limits: float) -> AsyncIterator[ModelInferResponse]:
        self.limits = limits
        for tensors in self._messages:
            response = ModelInferResponse()
            for name, (datatype, values) in tensors.items():
                response.outputs.add(name=name, datatype=datatype, shape=[len(values)])
                response.raw_output_contents.append(pack(datatype, values))
            yield response


def too_many_ids() -> dict[str, tuple[str, list[Any]]]:
    """Return an answer with more ids than the model's decoder takes."""
    count = transcribe_request().target.context + 1
    ids, logprobs = ("INT32", [5] * count), ("FP32", [-0.5] * count)
    times = ("FP32", [0.0] * (count + 1))
    return {**HEARD, dialect.TOKEN_IDS: ids, dialect.LOGPROBS: logprobs, dialect.TOKEN_TIMES: times}


async def heard(*messages: Mapping[str, tuple[str, list[Any]]]) -> tuple[HeardWindow, int]:
    """Return the window, and how often the engine gave a sign of life."""
    alive: list[None] = []
    request = transcribe_request(words=True)
    calls = SpeechCalls(Engine(*messages), request, VOCABULARY, lambda: alive.append(None))  # type: ignore[arg-type]
    return await calls.hear(np.zeros(16, np.float32), [1, 2], 60.0), len(alive)


async def test_a_window_is_what_the_last_message_says() -> None:
    window, alive = await heard({}, TOLD, {}, HEARD)
    assert (window.ids, window.logprobs, window.times) == ((5, 6), (-0.5, -0.25), (0.0, 0.5, 1.0))
    assert (window.language_id, window.no_speech_prob, alive) == (1, 0.25, 4)


@pytest.mark.parametrize(("window_s", "first_s"), [(60.0, 20.0), (10.0, 10.0)])
async def test_each_part_of_a_call_has_the_time_that_the_request_gives_it(window_s: float, first_s: float) -> None:
    engine = Engine(TOLD, HEARD)
    request = transcribe_request(words=True, first_token_timeout_s=20.0, inter_token_timeout_s=2.5)
    calls = SpeechCalls(engine, request, VOCABULARY, lambda: None)  # type: ignore[arg-type]
    await calls.hear(np.zeros(16, np.float32), [1, 2], window_s)
    times = {"first_timeout_s": first_s, "inter_timeout_s": 2.5, "timeout_s": window_s}
    assert engine.limits == {**times, "most_bytes": MAX_CONTROL_BYTES}


async def test_what_is_no_number_is_not_told() -> None:
    odd = {**HEARD, dialect.AVG_LOGPROB: ("FP32", [math.nan]), dialect.TEMPERATURE: ("FP32", [math.inf])}
    window, _ = await heard({**TOLD, dialect.NO_SPEECH_PROB: ("FP32", [math.nan])}, odd)
    assert (window.avg_logprob, window.temperature, window.no_speech_prob) == (0.0, 0.0, None)


@pytest.mark.parametrize(
    ("messages", "error", "says"),
    [
        ((), EngineLost, "without saying why"),
        (({}, TOLD), EngineLost, "without saying why"),
        (
            (TOLD, {**HEARD, dialect.FINISH_REASON: ("BYTES", [dialect.FINISH_CANCELLED.encode()])}),
            EngineLost,
            "cancel",
        ),
        (({**TOLD, dialect.LANGUAGE_ID: ("INT32", [1, 2])},), MalformedResponse, "one language"),
        (({**TOLD, dialect.NO_SPEECH_PROB: ("FP32", [])},), MalformedResponse, "one language"),
        ((too_many_ids(),), MalformedResponse, "at most 64 ids"),
        *(
            (({**HEARD, name: tensor},), MalformedResponse, "do not fit")
            for name, tensor in (
                (dialect.LOGPROBS, ("FP32", [-0.5])),
                (dialect.LOGPROBS, ("FP32", [-0.5, math.nan])),
                (dialect.TOKEN_TIMES, ("FP32", [0.0, 0.5])),
                (dialect.TOKEN_TIMES, ("FP32", [0.0, 0.5, math.inf])),
                (dialect.TOKEN_IDS, ("INT32", [5, -6])),
                (dialect.AVG_LOGPROB, ("FP32", [])),
                (dialect.TEMPERATURE, ("FP32", [0.0, 0.0])),
            )
        ),
    ],
)
async def test_what_cannot_be_a_window_is_the_engines_fault(
    messages: tuple[Any, ...], error: type[EngineError], says: str
) -> None:
    with pytest.raises(error, match=says):
        await heard(*messages)
