"""Parameters that an endpoint does not have: a clear 400, never silence; pure.

They are what other servers have and this one does not, and what only another endpoint has. A value that
asks for nothing (null, or the default) passes. Fields that clients send for their own or their provider's sake are
accepted without effect. Everything else is unknown: ignored, and counted by the caller.
"""

from collections.abc import Iterable, Mapping

from conch_contracts.capabilities import is_harmless
from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.openai.responses.response import ResponsesRequest
from conch_contracts.openai.tokenizing import TokenizeRequest
from conch_gateway.errors.bad_request import unsupported
from conch_gateway.requests.refusals.of_anthropic import OF_ANTHROPIC
from conch_gateway.requests.refusals.of_encoders import OF_ENCODERS
from conch_gateway.requests.refusals.of_endpoints import OF_ENDPOINTS
from conch_gateway.requests.refusals.of_generating import OF_GENERATING
from conch_gateway.requests.refusals.of_speech import OF_SPEECH
from conch_gateway.requests.refusals.parameter_refusal import ParameterRefusal

INERT = frozenset(
    {
        "cache_prompt",
        "keep_alive",
        "parallel_tool_calls",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "store",
        "ttl",
        "verbosity",
    }
)
"""Clients send these by default, to endpoints that can make nothing of them too."""

_GENERATING: tuple[type[ApiModel], ...] = (ChatCompletionRequest, CompletionRequest)
_ENCODERS = OF_ENDPOINTS.keys() - {*_GENERATING, TokenizeRequest}
_OF_ONE_ENDPOINT = (ChatCompletionRequest.model_fields.keys() ^ CompletionRequest.model_fields.keys()) - INERT
REFUSALS: Mapping[str, ParameterRefusal] = {
    **dict.fromkeys(_OF_ONE_ENDPOINT, ParameterRefusal()),
    **OF_GENERATING,
    **OF_ENCODERS,
}
"""What is refused where the type of the request does not have it."""


def _others_of(kind: type[ApiModel]) -> set[str]:
    """Return the fields of the endpoints that this one may be taken for."""
    if kind in _GENERATING:
        return ResponsesRequest.model_fields.keys() - INERT
    return {name for other in _ENCODERS for name in other.model_fields} if kind in _ENCODERS else set()


_REFUSED_BY: Mapping[type[ApiModel], Mapping[str, ParameterRefusal]] = {
    **{
        kind: {**dict.fromkeys(_others_of(kind), ParameterRefusal()), **REFUSALS, **known}
        for kind, known in {**OF_ENDPOINTS, **OF_SPEECH}.items()
    },
    **OF_ANTHROPIC,
}


def refuse(kind: type[ApiModel], document: Mapping[str, object], extra: Iterable[str]) -> int:
    """Raise for an extra field that this endpoint does not have; return how many of them nobody knows."""
    unknown = 0
    refusals = _REFUSED_BY.get(kind, REFUSALS)
    for name in sorted(extra):
        refusal = refusals.get(name)
        if refusal is None:
            unknown += name not in INERT
        elif not is_harmless(document[name], refusal.harmless):
            raise unsupported(name, refusal.instead)
    return unknown
