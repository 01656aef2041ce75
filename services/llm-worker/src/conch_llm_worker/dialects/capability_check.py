"""Refuses what no model of a dialect can do, by the table in `conch_contracts.capabilities`.

The gateway has asked the same table before; this is the check of the process that would have to obey. What this one
model lacks, because it declares no tensor for it, is refused by its dialect with `unsupported`.
"""

from collections.abc import Iterator

from conch_contracts.capabilities import Feature, lack
from conch_contracts.messages.generation import Api, GenerateRequest, SamplingParameters
from conch_kit.errors import InvalidRequest

PICTURES_PARAM = Feature.PICTURES.params[0]
"""What a picture is called where it is not known how the client wrote it."""


def refuse(request: GenerateRequest, sampling: SamplingParameters) -> None:
    """Raise `InvalidRequest` for the first thing asked for that the dialect lacks."""
    dialect = request.target.dialect
    for feature, param in _asked(request, sampling):
        sentence = lack(feature, param, dialect)
        if sentence is not None:
            raise InvalidRequest(sentence, param=param, code="unsupported_parameter")


def unsupported(param: str) -> InvalidRequest:
    """Return the refusal of a parameter for which this model declares no tensor."""
    return InvalidRequest(f"This model's engine does not support '{param}'.", param=param, code="unsupported_parameter")


def needs_logprobs(request: GenerateRequest) -> bool:
    """Return whether the engine must give log probabilities: they are shown, or choices are ranked by them.

    An engine ranks the beams of a search by itself.
    """
    return request.logprobs or (request.best_of is not None and request.sampling.beams is None)


def grammar_param(request: GenerateRequest) -> str:
    """Return what the client calls the form that the answer must have."""
    return request.grammar_param or "response_format"


def _asked(request: GenerateRequest, sampling: SamplingParameters) -> Iterator[tuple[Feature, str]]:
    """Yield the features that a request needs, among those that some dialect lacks."""
    yield from _asked_of_tokens(sampling)
    yield from _asked_of_logprobs(request, sampling)
    if sampling.grammar is not None:
        yield Feature.GRAMMAR, grammar_param(request)
    backend, details = request.backend, request.details
    if backend.cache_salt is not None:
        yield Feature.CACHE_SALT, "cache_salt"
    if backend.extra_arguments:
        yield Feature.EXTRA_ARGUMENTS, "vllm_xargs"
    if backend.kv_transfer is not None:
        yield Feature.KV_TRANSFER, "kv_transfer_params"
    if any(prompt.pictures for prompt in request.prompts):
        yield Feature.PICTURES, PICTURES_PARAM
    if details is not None and details.token_ids:
        yield Feature.TOKEN_IDS, "return_token_ids"
    if details is not None and details.max_frame_tokens is not None:
        yield Feature.FRAME_TOKENS, "max_streaming_response_tokens"


def _asked_of_tokens(sampling: SamplingParameters) -> Iterator[tuple[Feature, str]]:
    if sampling.min_p > 0:
        yield Feature.MIN_P, "min_p"
    if sampling.frequency_penalty != 0:
        yield Feature.FREQUENCY_PENALTY, "frequency_penalty"
    if sampling.logit_bias:
        yield Feature.LOGIT_BIAS, "logit_bias"
    if sampling.allowed_token_ids is not None:
        yield Feature.ALLOWED_IDS, "allowed_token_ids"
    if sampling.ignore_eos:
        yield Feature.IGNORE_EOS, "ignore_eos"
    if sampling.beams is not None:
        yield Feature.BEAM_SEARCH, "use_beam_search"
    if sampling.thinking is not None:
        yield Feature.THINKING_BUDGET, "thinking_token_budget"


def _asked_of_logprobs(request: GenerateRequest, sampling: SamplingParameters) -> Iterator[tuple[Feature, str]]:
    if request.details is not None and request.details.prompt_logprobs is not None:
        yield Feature.PROMPT_LOGPROBS, "prompt_logprobs"
    if request.logprobs:
        if request.echo:
            yield Feature.PROMPT_LOGPROBS, "echo"
        if sampling.temp_scaled_logprobs:
            yield Feature.SCALED_LOGPROBS, "temp_scaled_logprobs"
        if sampling.top_p_normalized_logprobs:
            yield Feature.SCALED_LOGPROBS, "top_p_normalized_logprobs"
    if sampling.logprob_token_ids:
        yield Feature.LOGPROB_IDS, "logprob_token_ids"
    if sampling.logprobs:
        yield Feature.ALTERNATIVES, "logprobs" if request.api is Api.COMPLETION else "top_logprobs"
