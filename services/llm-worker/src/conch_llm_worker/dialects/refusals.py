"""Refuses what no model of a dialect can do, by the table in `conch_contracts.capabilities`.

The gateway has asked the same table before; this is the check of the process that would have to obey. What this one
model lacks, because it declares no tensor for it, is refused by its dialect with `unsupported`.
"""

from collections.abc import Iterator

from conch_contracts.capabilities import CAPABILITIES, Feature, Level, refusal
from conch_contracts.generation import Api, GenerateRequest, SamplingParameters
from conch_kit.errors import InvalidRequest


def refuse(request: GenerateRequest, sampling: SamplingParameters) -> None:
    """Raise `InvalidRequest` for the first thing asked for that the dialect lacks."""
    dialect = request.target.dialect
    table = CAPABILITIES[dialect]
    for feature, param in _asked(request, sampling):
        support = table[feature]
        if support.level is Level.NO:
            message = refusal(param, dialect, support.note)
            raise InvalidRequest(message, param=param, code="unsupported_parameter")


def unsupported(param: str) -> InvalidRequest:
    """Return the refusal of a parameter for which this model declares no tensor."""
    return InvalidRequest(f"This model's engine does not support '{param}'.", param=param, code="unsupported_parameter")


def _asked(request: GenerateRequest, sampling: SamplingParameters) -> Iterator[tuple[Feature, str]]:
    """Yield the features that a request needs, among those that some dialect lacks."""
    if sampling.min_p > 0:
        yield Feature.MIN_P, "min_p"
    if sampling.frequency_penalty != 0:
        yield Feature.FREQUENCY_PENALTY, "frequency_penalty"
    if sampling.logit_bias:
        yield Feature.LOGIT_BIAS, "logit_bias"
    if sampling.ignore_eos:
        yield Feature.IGNORE_EOS, "ignore_eos"
    if request.echo and request.logprobs:
        yield Feature.PROMPT_LOGPROBS, "echo"
    if sampling.logprobs:
        yield Feature.ALTERNATIVES, "top_logprobs" if request.api is Api.CHAT else "logprobs"
