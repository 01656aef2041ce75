"""Calls an engine that speaks the `speech` dialect: one gRPC stream for each window."""

import math
from collections.abc import Callable, Sequence
from contextlib import aclosing

from conch_contracts.dialects import speech as dialect
from conch_contracts.messages.message import to_json
from conch_contracts.messages.transcription import SpeechParameters, TranscribeRequest
from conch_kit.triton.client import TritonClient
from conch_kit.triton.errors import EngineLost, MalformedResponse
from conch_kit.triton.message_limits import MAX_CONTROL_BYTES
from conch_kit.triton.tensors import Outputs, add_input, add_raw, new_request
from conch_speech_worker.engine.prompts import window_parameters
from conch_speech_worker.transcript.segments import HeardWindow
from conch_speech_worker.vocabulary import TranscriptVocabulary
from conch_speech_worker.windows.loudness import Samples


class SpeechCalls:
    """Makes the engine calls of one request."""

    def __init__(
        self,
        triton: TritonClient,
        request: TranscribeRequest,
        vocabulary: TranscriptVocabulary,
        alive: Callable[[], None],
    ) -> None:
        """`alive` hears of each message of an engine."""
        self._triton = triton
        self._request = request
        self._vocabulary = vocabulary
        self._alive = alive

    async def hear(self, samples: Samples, prompt: Sequence[int], timeout_s: float) -> HeardWindow:
        """Return what one window holds; raises EngineError."""
        request = self._request
        message = new_request(request.target.model, request.request_id)
        add_raw(message, dialect.PCM, "INT16", [len(samples)], samples.astype("<i2").tobytes())
        add_input(message, dialect.PROMPT_IDS, "INT32", [len(prompt)], prompt)
        parameters = window_parameters(request, len(prompt), self._vocabulary)
        add_input(message, dialect.PARAMETERS, "BYTES", [1], [to_json(parameters)])
        stream = self._triton.stream(
            request.target.grpc,
            message,
            first_timeout_s=min(request.first_token_timeout_s, timeout_s),
            inter_timeout_s=request.inter_token_timeout_s,
            timeout_s=timeout_s,
            most_bytes=MAX_CONTROL_BYTES,  # thousands of times what a window holds
        )
        told: tuple[int | None, float | None] = None, None
        async with aclosing(stream):
            async for response in stream:
                self._alive()
                if not response.outputs:
                    continue
                outputs = Outputs(response)
                if outputs.has(dialect.LANGUAGE_ID):
                    told = _told(outputs)
                if outputs.has(dialect.FINISH_REASON):
                    return _heard(outputs, parameters, told, prompt, request.target.context)
        raise EngineLost("The engine ended its answer without saying why.")


def _told(outputs: Outputs) -> tuple[int, float]:
    """Return the language's id, and how likely nobody speaks."""
    languages, probabilities = outputs.ints(dialect.LANGUAGE_ID), outputs.floats(dialect.NO_SPEECH_PROB)
    if len(languages) != 1 or len(probabilities) != 1:
        raise MalformedResponse("Expected one language and one probability for a window.")
    return languages[0], probabilities[0]


def _heard(
    outputs: Outputs,
    parameters: SpeechParameters,
    told: tuple[int | None, float | None],
    prompt: Sequence[int],
    most_ids: int,
) -> HeardWindow:
    if outputs.texts(dialect.FINISH_REASON) == [dialect.FINISH_CANCELLED.encode()]:
        raise EngineLost("The engine cancelled the window.")
    ids, logprobs = outputs.ints(dialect.TOKEN_IDS), outputs.floats(dialect.LOGPROBS)
    if len(ids) > most_ids:  # to make text of them would hold up all other requests
        raise MalformedResponse(f"Expected at most {most_ids} ids for a window, found {len(ids)}.")
    times = outputs.floats(dialect.TOKEN_TIMES) if parameters.word_times and ids else None
    averages, temperatures = outputs.floats(dialect.AVG_LOGPROB), outputs.floats(dialect.TEMPERATURE)
    if (
        len(logprobs) != len(ids)
        or (times is not None and len(times) != len(ids) + 1)
        or not all(math.isfinite(number) for number in (*logprobs, *(times or ())))
        or len(averages) != 1
        or len(temperatures) != 1
        or any(number < 0 for number in ids)
    ):
        raise MalformedResponse("The engine's tensors do not fit each other.")
    language, no_speech = told
    return HeardWindow(
        ids=ids,
        logprobs=logprobs,
        avg_logprob=averages[0] if math.isfinite(averages[0]) else 0.0,
        temperature=temperatures[0] if math.isfinite(temperatures[0]) else 0.0,
        no_speech_prob=None if no_speech is None or not math.isfinite(no_speech) else no_speech,
        language_id=language,
        times=times,
        prompt_tokens=len(prompt),
        completion_tokens=len(ids),
    )
