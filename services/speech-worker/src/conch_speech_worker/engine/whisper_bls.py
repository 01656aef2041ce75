"""Calls an engine that speaks the `whisper_bls` dialect: a part of a window in each call, a text in each answer.

Its texts hold no times and end after so many tokens without a word about it. So a window goes there in parts that are
short enough for most speech, and a part whose text may have been cut is heard again in halves. It says nothing while it
works either; how long it may, each call has a limit for.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

from conch_contracts.capabilities import is_harmless, refused
from conch_contracts.dialects import speech
from conch_contracts.dialects import whisper_bls as dialect
from conch_contracts.messages.transcription import SpeechTask, TranscribeRequest
from conch_contracts.speech_capabilities import HARMLESS, SPEECH_CAPABILITIES, SpeechFeature
from conch_kit.errors import InvalidRequest, UpstreamError
from conch_kit.triton.client import TritonClient
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.message_limits import MAX_CONTROL_BYTES
from conch_kit.triton.tensors import Outputs
from conch_kit.triton.whisper_tensors import WhisperTensors, read_whisper_tensors, whisper_request
from conch_speech_worker.recurring_calls import calling_every
from conch_speech_worker.transcript.segments import HeardWindow
from conch_speech_worker.vocabulary import TranscriptVocabulary
from conch_speech_worker.windows.loudness import Samples, is_silent
from conch_speech_worker.windows.parts import SAMPLES_OF_STEP, WindowPart, halves_of, parts_of

_TOKENS_OF_S = 4
"""Tokens of a second of fast speech."""
_CUT_SHARE = 0.9
"""Of the tokens of a window: a text of so many may have been cut. The rest is for tokens that the tokenizer does not
count as the model wrote them, such as the ending one."""
_HALVED_S = 4
"""Parts that are shorter are not halved: a text that fills them is no speech."""
_FULL_SCALE = 32_768
_MOST_BYTES = 65_536
"""Of a text, many more than the tokens of a window hold: what is longer would keep the tokenizer busy."""
_MARK = re.compile(r"<\|.*?\|>")
_UNFINISHED = "\ufffd"
"""What stands for bytes that are no whole character."""
_WITHOUT_SPACES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})
"""Languages that are written without spaces between words, as openai/whisper has them (tokenizer.py)."""


@dataclass(frozen=True, slots=True)
class _HeardPart:
    part: WindowPart
    ids: tuple[int, ...]


class WhisperCalls:
    """Makes the engine calls of one request."""

    def __init__(
        self,
        triton: TritonClient,
        request: TranscribeRequest,
        vocabulary: TranscriptVocabulary,
        alive: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`alive` hears now and then that a call goes on.

        Raises InvalidRequest for what the dialect cannot express, UpstreamError without the tokens of a window.
        """
        _check(request)
        if request.target.window_tokens is None:
            raise UpstreamError(f"The {request.target.dialect} dialect needs the tokens of a window.")
        self._triton = triton
        self._request = request
        self._vocabulary = vocabulary
        self._alive = alive
        self._clock = clock
        self._tensors: WhisperTensors | None = None
        self._reading = asyncio.Lock()
        self._window_tokens = request.target.window_tokens
        language = "en" if request.task is SpeechTask.TRANSLATE else request.language
        self._space = "" if language in _WITHOUT_SPACES else " "

    async def hear(self, samples: Samples, prompt: Sequence[int], timeout_s: float) -> HeardWindow:
        """Return what one window holds, each part between the times of its ends; raises EngineError."""
        until = self._clock() + timeout_s
        prefix = self._vocabulary.marks(prompt) + speech.NO_TIMES
        longest = min(dialect.LONGEST_SAMPLES, self._window_tokens // _TOKENS_OF_S * speech.SAMPLE_RATE)
        waiting, heard = deque(parts_of(samples, longest)), list[_HeardPart]()
        while waiting:
            part = waiting.popleft()
            if is_silent(part.samples):
                continue
            async with calling_every(speech.PROGRESS_S, self._tell):
                text = await self._text_of(part.samples, prefix, until)
            ids = self._vocabulary.ids(self._space + text) if text else ()
            if self._may_be_cut(ids, text) and len(part.samples) >= _HALVED_S * speech.SAMPLE_RATE:
                waiting.extendleft(reversed(halves_of(part)))
            elif ids:
                heard.append(_HeardPart(part, ids))
        return self._window(heard, len(prompt) + 1)

    def _may_be_cut(self, ids: Sequence[int], text: str) -> bool:
        return len(ids) >= _CUT_SHARE * self._window_tokens or text.endswith(_UNFINISHED)

    def _window(self, heard: Sequence[_HeardPart], prompt_tokens: int) -> HeardWindow:
        ids: list[int] = []
        for one in heard:
            start, end = (self._vocabulary.first_time_id + at // SAMPLES_OF_STEP for at in one.part.bounds)
            ids += [start, *one.ids, end]
        return HeardWindow(
            ids=tuple(ids),
            logprobs=(),
            avg_logprob=0.0,
            temperature=0.0,
            no_speech_prob=None,
            language_id=None,
            prompt_tokens=prompt_tokens * len(heard),
            completion_tokens=sum(len(one.ids) for one in heard),
        )

    async def _text_of(self, samples: Samples, prefix: str, until: float) -> str:
        """Have the engine hear one part."""
        request, tensors = self._request, await self._read_tensors(until)
        lacking = max(0, dialect.SHORTEST_SAMPLES - len(samples))
        sound = np.pad(samples, (0, lacking)).astype("<f4") / np.float32(_FULL_SCALE)
        message = whisper_request(request.target.model, request.request_id, tensors, prefix.encode(), sound.tobytes())
        if tensors.decoupled:
            return _plain(await self._last_of(message, self._left(until)))
        patience_s = self._patience(until)
        answer = await self._triton.infer(
            request.target.grpc, message, timeout_s=patience_s, most_bytes=MAX_CONTROL_BYTES
        )
        return _plain(_text(answer))

    async def _last_of(self, message: ModelInferRequest, left_s: float) -> str:
        """Return the last text of a stream, which is the whole one; no message at all means that nothing is said."""
        request, text = self._request, ""
        stream = self._triton.stream(
            request.target.grpc,
            message,
            first_timeout_s=min(request.first_token_timeout_s, left_s),
            inter_timeout_s=request.inter_token_timeout_s,
            timeout_s=left_s,
            most_bytes=MAX_CONTROL_BYTES,
        )
        async with aclosing(stream):
            async for response in stream:
                if response.outputs:
                    text = _text(response)
        return text

    async def _tell(self) -> None:
        self._alive()

    async def _read_tensors(self, until: float) -> WhisperTensors:
        """Return what the model declares; whoever comes first reads it, and all windows of the request have it then."""
        target = self._request.target
        async with self._reading:
            if self._tensors is None:
                config = await self._triton.model_config(target.grpc, target.model, timeout_s=self._patience(until))
                self._tensors = read_whisper_tensors(config)
            return self._tensors

    def _patience(self, until: float) -> float:
        """Return how long the engine may take for something whole."""
        return min(self._request.first_token_timeout_s, self._left(until))

    def _left(self, until: float) -> float:
        return max(0.001, until - self._clock())


def _check(request: TranscribeRequest) -> None:
    """Raise InvalidRequest for what the message can ask for and the dialect cannot express."""
    name = request.target.dialect
    for param, feature in _asked(request):
        sentence = refused(SPEECH_CAPABILITIES[name][feature], param, name)
        if sentence is not None:
            raise InvalidRequest(sentence, param=param, code="unsupported_parameter")


def _asked(request: TranscribeRequest) -> Iterator[tuple[str, SpeechFeature]]:
    """Yield what a request asks for of all that the dialect lacks; the other temperatures only follow the first."""
    given, target = request.parameters, request.target
    for param, feature, asked in (
        ("language", SpeechFeature.LANGUAGE_DETECTION, target.multilingual and request.language is None),
        ("languages", SpeechFeature.LANGUAGE_DETECTION, bool(request.languages)),
        ("prompt", SpeechFeature.PROMPT, bool(request.prompt_ids)),
        ("temperature", SpeechFeature.TEMPERATURE, any(given.temperatures[:1])),
        ("max_completion_tokens", SpeechFeature.MAX_TOKENS, given.max_tokens < target.context),
        ("include", SpeechFeature.LOGPROBS, request.logprobs),
        ("timestamp_granularities", SpeechFeature.WORD_TIMES, request.words),
    ):
        if asked:
            yield param, feature
    for feature in (SpeechFeature.SAMPLING, SpeechFeature.PENALTIES):
        for param in feature.params:
            if not is_harmless(getattr(given, param), HARMLESS.get(param, ())):
                yield param, feature


def _text(response: ModelInferResponse) -> str:
    texts = Outputs(response).texts(dialect.TRANSCRIPTS)
    if len(texts) != 1:
        raise MalformedResponse(f"Expected one text in {dialect.TRANSCRIPTS}, found {len(texts)}.")
    if len(texts[0]) > _MOST_BYTES:
        raise MalformedResponse(f"The text in {dialect.TRANSCRIPTS} has {len(texts[0])} bytes, too many for a window.")
    try:
        return texts[0].decode()
    except UnicodeDecodeError:
        raise MalformedResponse(f"The text in {dialect.TRANSCRIPTS} is not UTF-8.") from None


def _plain(text: str) -> str:
    return _MARK.sub("", text).strip()
