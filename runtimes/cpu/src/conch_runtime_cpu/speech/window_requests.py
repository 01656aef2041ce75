"""Turns the tensors of one request into a window that the scheduler can run, or refuses it."""

import math
import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch_contracts.dialects import speech as dialect
from conch_contracts.messages.generation import SamplingParameters
from conch_contracts.messages.message import InvalidMessage, changed, from_json
from conch_contracts.messages.transcription import SpeechParameters
from conch_runtime_cpu.errors import UnservableRequest
from conch_runtime_cpu.requests import GenerationRequest, check_numbers
from conch_runtime_cpu.speech.vocabulary import SpeechVocabulary

_SEED_BITS = 64
_MOST_TRIES = 16


class _ObeyedSpeechParameters(SpeechParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of which none is ignored."""


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """A request that can be obeyed."""

    pcm: NDArray[np.int16]
    prompt: NDArray[np.int64]
    start: int
    """Where in the prompt the id stands with which the model begins; behind it is the language, found or not."""
    timed: bool
    """Whether the answer has ids that stand for times."""
    parameters: SpeechParameters
    """As sent, but `max_tokens` is cut to the context."""
    seed: int
    """Unsigned 64 bits; drawn when the request named none."""

    @property
    def finds_language(self) -> bool:
        """Return whether the language is to be found."""
        return dialect.FIND_LANGUAGE in self.prompt

    def try_at(self, number: int, prompt: NDArray[np.int64]) -> GenerationRequest:
        """Return how the ids of one try are chosen."""
        return GenerationRequest(prompt, _sampling(self.parameters, number), (self.seed + number) % 2**_SEED_BITS)


def parse_window(
    pcm: NDArray[np.int16], prompt: NDArray[np.int32], parameters: bytes, vocabulary: SpeechVocabulary, context: int
) -> WindowRequest:
    """Check one request against the model; raises UnservableRequest, naming the tensor or the parameter."""
    if not 0 < len(pcm) <= dialect.WINDOW_SAMPLES:
        raise UnservableRequest(
            f"{dialect.PCM}: must hold from 1 to {dialect.WINDOW_SAMPLES} samples; found {len(pcm)}"
        )
    start = _check_prompt(prompt, vocabulary, context)
    asked = _read_parameters(parameters, vocabulary)
    return WindowRequest(
        pcm=pcm,
        prompt=prompt.astype(np.int64),
        start=start,
        timed=vocabulary.no_times_id not in prompt[start:],
        parameters=changed(asked, max_tokens=min(asked.max_tokens, context - len(prompt))),
        seed=secrets.randbits(_SEED_BITS) if asked.seed is None else asked.seed % 2**_SEED_BITS,
    )


def _check_prompt(prompt: NDArray[np.int32], vocabulary: SpeechVocabulary, context: int) -> int:
    """Return where the id stands with which the model begins."""
    name = dialect.PROMPT_IDS
    starts = np.flatnonzero(prompt == vocabulary.start_id)
    if len(starts) != 1:
        raise UnservableRequest(f"{name}: must hold the id {vocabulary.start_id} once; found {len(starts)} of it")
    start = int(starts[0])
    unknown = (prompt < 0) | (prompt >= vocabulary.size)
    if dialect.FIND_LANGUAGE in prompt[start + 1 : start + 2]:
        if not vocabulary.languages:
            raise UnservableRequest(f"{name}: the model knows one language only, so none can be found")
        unknown[start + 1] = False
    if unknown.any():
        raise UnservableRequest(
            f"{name}: every id must be from 0 to {vocabulary.size - 1}, or {dialect.FIND_LANGUAGE} behind "
            f"{vocabulary.start_id}; found {prompt[unknown][0]}"
        )
    if len(prompt) >= context:
        raise UnservableRequest(f"{name}: {len(prompt)} ids leave no room in the context of {context}")
    return start


def _read_parameters(parameters: bytes, vocabulary: SpeechVocabulary) -> SpeechParameters:
    try:
        asked: SpeechParameters = from_json(_ObeyedSpeechParameters, parameters)
    except InvalidMessage as error:
        raise UnservableRequest(f"{error.where or dialect.PARAMETERS}: {error.reason}") from error
    if asked.max_tokens < 1:
        raise UnservableRequest(f"max_tokens: must be at least 1; found {asked.max_tokens}")
    if not 0 < len(asked.temperatures) <= _MOST_TRIES:
        raise UnservableRequest(f"temperatures: must be from 1 to {_MOST_TRIES}; found {len(asked.temperatures)}")
    for temperature in asked.temperatures:
        if not (math.isfinite(temperature) and temperature >= 0):
            raise UnservableRequest(f"temperatures: each must be at least 0; found {temperature}")
    for threshold in ("compression_ratio_threshold", "logprob_threshold", "no_speech_threshold"):
        value = getattr(asked, threshold)
        if value is not None and not math.isfinite(value):
            raise UnservableRequest(f"{threshold}: must be a finite number; found {value}")
    for language in asked.languages:
        if language not in vocabulary.languages:
            raise UnservableRequest(f"languages: the model has no language of the id {language}")
    if asked.word_times and not vocabulary.alignment_heads:
        raise UnservableRequest("word_times: the model's generation_config.json has no alignment_heads")
    check_numbers(_sampling(asked, 0))
    return asked


def _sampling(parameters: SpeechParameters, number: int) -> SamplingParameters:
    return SamplingParameters(
        max_tokens=parameters.max_tokens,
        temperature=parameters.temperatures[number],
        top_p=parameters.top_p,
        top_k=parameters.top_k,
        min_p=parameters.min_p,
        repetition_penalty=parameters.repetition_penalty,
        frequency_penalty=parameters.frequency_penalty,
        presence_penalty=parameters.presence_penalty,
        logprobs=0,
    )
