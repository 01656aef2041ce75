"""Turns the ids and parameters of one request into something that the scheduler can run, or refuses it."""

import math
import secrets
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from conch_contracts.messages.generation import SamplingParameters, ThinkingLimit
from conch_contracts.messages.grammar import Grammar
from conch_contracts.messages.message import InvalidMessage, changed, from_json
from conch_runtime_cpu.errors import UnservableRequest
from conch_runtime_cpu.masks.logits_mask import LogitsMask
from conch_runtime_cpu.masks.thinking_mask import thinking_mask
from conch_runtime_cpu.pictures import NO_PICTURES, PictureShape, PictureTensors, ShownPicture, parse_pictures

_SEED_BITS = 64
_REMEMBERED = 64
_SHORT_BYTES = 2048


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What the model can take."""

    vocabulary: int
    context: int
    picture: PictureShape | None = None
    """What a picture must be like; None: the model sees none."""


class _ObeyedGrammar(Grammar, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One whose every field is known."""


class _ObeyedLimit(ThinkingLimit, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One whose every field is known."""


class _ObeyedParameters(SamplingParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of which none is ignored."""

    grammar: _ObeyedGrammar | None = None
    thinking: _ObeyedLimit | None = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A request that can be obeyed."""

    prompt: NDArray[np.int64]
    sampling: SamplingParameters
    """As sent, but `max_tokens` is cut to the context."""
    seed: int
    """Unsigned 64 bits; drawn when the request named none."""
    mask: LogitsMask | None = None
    pictures: tuple[ShownPicture, ...] = ()
    """In the order of their ids."""


def parse_request(
    prompt: NDArray[np.int32], parameters: bytes, limits: ModelLimits, pictures: PictureTensors = NO_PICTURES
) -> GenerationRequest:
    """Check one request against the model; raises UnservableRequest, naming the parameter or the tensor."""
    read = _remembered if len(parameters) <= _SHORT_BYTES else _read_parameters
    sampling = read(parameters, limits.vocabulary)
    _check_prompt(prompt, sampling, limits)
    room = limits.context - len(prompt)
    clipped = changed(sampling, max_tokens=min(sampling.max_tokens, room))
    seed = secrets.randbits(_SEED_BITS) if sampling.seed is None else sampling.seed % 2**_SEED_BITS
    shown = parse_pictures(pictures, prompt, limits.picture)
    return GenerationRequest(prompt.astype(np.int64), clipped, seed, thinking_mask(sampling), shown)


def _read_parameters(parameters: bytes, vocabulary: int) -> SamplingParameters:
    try:
        sampling: SamplingParameters = from_json(_ObeyedParameters, parameters)
    except InvalidMessage as error:
        raise UnservableRequest(f"{error.where or 'parameters'}: {error.reason}") from error
    check_numbers(sampling)
    _check_ids(sampling, vocabulary)
    return sampling


_remembered = lru_cache(_REMEMBERED)(_read_parameters)
"""Clients send the same parameters with one prompt after another."""


def _check_prompt(prompt: NDArray[np.int32], sampling: SamplingParameters, limits: ModelLimits) -> None:
    if not len(prompt):
        raise UnservableRequest("input_ids: the prompt is empty")
    if np.maximum.reduce(prompt.view(np.uint32)) >= limits.vocabulary:  # what is below 0 is above 2^31 then
        raise UnservableRequest(f"input_ids: every id must be from 0 to {limits.vocabulary - 1}")
    longest = limits.context - (1 if sampling.max_tokens else 0)
    if len(prompt) > longest:
        raise UnservableRequest(f"input_ids: {len(prompt)} tokens leave no room in the context of {limits.context}")


def check_numbers(sampling: SamplingParameters) -> None:
    """Raise UnservableRequest for a number that means nothing, naming the parameter."""
    at_least_zero = {
        "max_tokens": sampling.max_tokens,
        "min_tokens": sampling.min_tokens,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "logprobs": sampling.logprobs or 0,
        "prompt_logprobs": sampling.prompt_logprobs or 0,
        "thinking.tokens": 0 if sampling.thinking is None else sampling.thinking.tokens,
    }
    for name, value in at_least_zero.items():
        if not (math.isfinite(value) and value >= 0):
            raise UnservableRequest(f"{name}: must be at least 0; found {value}")
    for name, value in {
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
        **{f"logit_bias.{token}": bias for token, bias in sampling.logit_bias.items()},
    }.items():
        if not math.isfinite(value):
            raise UnservableRequest(f"{name}: must be a finite number; found {value}")
    if sampling.beams is not None:
        raise UnservableRequest("beams: this runtime draws tokens one by one and has no beam search")
    if not 0 < sampling.top_p <= 1:
        raise UnservableRequest(f"top_p: must be above 0 and at most 1; found {sampling.top_p}")
    if not 0 <= sampling.min_p <= 1:
        raise UnservableRequest(f"min_p: must be from 0 to 1; found {sampling.min_p}")
    if not 0 < sampling.repetition_penalty < math.inf:
        raise UnservableRequest(f"repetition_penalty: must be above 0; found {sampling.repetition_penalty}")


def _check_ids(sampling: SamplingParameters, vocabulary: int) -> None:
    groups = {
        "eos_token_ids": sampling.eos_token_ids,
        "stop_token_ids": sampling.stop_token_ids,
        "logit_bias": tuple(sampling.logit_bias),
        "allowed_token_ids": sampling.allowed_token_ids or (),
        "logprob_token_ids": sampling.logprob_token_ids,
        "bad_words": tuple(token for word in sampling.bad_words for token in word),
        "thinking": () if sampling.thinking is None else (sampling.thinking.start_id, sampling.thinking.end_id),
    }
    for name, ids in groups.items():
        for token in ids:
            if not 0 <= token < vocabulary:
                raise UnservableRequest(f"{name}: id {token} is not in the vocabulary of {vocabulary}")
    if not all(sampling.bad_words):
        raise UnservableRequest("bad_words: a bad word must have at least one id")
    if sampling.allowed_token_ids is not None and not sampling.allowed_token_ids:
        raise UnservableRequest("allowed_token_ids: at least one id must be allowed")
