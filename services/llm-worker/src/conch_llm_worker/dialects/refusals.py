"""Refuses what no model of a dialect can do, by the table in `conch_contracts.capabilities`.

The gateway has asked the same table before; this is the check of the process that would have to obey. What this one
model lacks, because it declares no tensor for it, is refused by its dialect with `unsupported`.
"""

from collections.abc import Iterator

from conch_contracts.capabilities import CAPABILITIES, Feature, Level, refusal
from conch_contracts.generation import Api, GenerateRequest, Message, SamplingParameters
from conch_contracts.records import Dialect
from conch_kit.errors import InvalidRequest

_SENT = frozenset(
    {"max_tokens", "min_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "ignore_eos", "eos_token_ids"}
    | {"repetition_penalty", "frequency_penalty", "presence_penalty", "stop_token_ids", "bad_words"}
    | {"logit_bias", "logprobs"}
)
_SENT_OPTIONS = frozenset({"start_id", "end_id", "mask_positions", "stop_words"})


def refuse(request: GenerateRequest, sampling: SamplingParameters) -> None:
    """Raise `InvalidRequest` for the first thing asked for that the dialect lacks."""
    dialect = request.target.dialect
    table = CAPABILITIES[dialect]
    for feature, param in _asked(request, sampling):
        support = table[feature]
        if support.level is Level.NO:
            message = refusal(param, dialect, support.note)
            raise InvalidRequest(message, param=param, code="unsupported_parameter")
    if dialect is not Dialect.TOKENS:  # whose engine is sent all that there is
        _refuse_unknown(sampling, _SENT)
        _refuse_unknown(request.backend, _SENT_OPTIONS)


def unsupported(param: str) -> InvalidRequest:
    """Return the refusal of a parameter for which this model declares no tensor."""
    return InvalidRequest(f"This model's engine does not support '{param}'.", param=param, code="unsupported_parameter")


def _refuse_unknown(message: Message, known: frozenset[str]) -> None:
    """Refuse a field that no dialect of other people's backends sends yet, rather than leave it out in silence."""
    for name, field in type(message).model_fields.items():
        if name not in known and dict(message)[name] != field.default:
            raise unsupported(name)


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
