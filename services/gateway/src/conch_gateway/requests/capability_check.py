"""Refuses what the model's backend cannot obey, before anything is asked of the tokenizer or an engine; pure.

The table is `conch_contracts.capabilities`. What depends on the tensors that a model declares is refused by the worker.
"""

from collections.abc import Mapping

from conch_contracts.capabilities import HARMLESS, LACKS, Feature, is_harmless, lack, refusal
from conch_contracts.messages.generation import Api
from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.openai.sampling import SamplingFields
from conch_contracts.records import Dialect
from conch_gateway.constraints.structured_output import Constraint
from conch_gateway.requests.parameters import Shape
from conch_gateway.requests.tokenizer_request import prompts_of
from conch_kit.errors import InvalidRequest

_REMOTE_DECODE = "kv_transfer_params.do_remote_decode"
_NOT_TOLD = "it does not tell where another engine would find the cache"


def check(request: SamplingFields, shape: Shape, dialect: Dialect) -> None:
    """Raise InvalidRequest for the first parameter that the dialect can never obey."""
    check_fields(request, dialect, LACKS, HARMLESS)
    if request.kv_transfer_params and request.kv_transfer_params.get("do_remote_decode"):
        raise _refused(refusal(_REMOTE_DECODE, dialect, _NOT_TOLD), _REMOTE_DECODE)
    if _has_ids(request):
        _need(Feature.PROMPT_IDS, shape.prompt_param, dialect)
    if shape.alternatives is None:
        return
    if shape.echo:
        _need(Feature.PROMPT_LOGPROBS, "echo", dialect)
    _need(Feature.LOGPROBS, "logprobs", dialect)
    if shape.alternatives:
        _need(Feature.ALTERNATIVES, "logprobs" if shape.api is Api.COMPLETION else "top_logprobs", dialect)


def check_fields(
    request: ApiModel,
    dialect: Dialect,
    lacks: Mapping[Dialect, Mapping[str, str]],
    harmless: Mapping[str, tuple[object, ...]],
) -> None:
    """Raise InvalidRequest for the first field of those that the dialect lacks, unless its value is a harmless one."""
    given = request.model_fields_set
    for param, reason in lacks[dialect].items():
        if param in given and not is_harmless(getattr(request, param), harmless.get(param, ())):
            raise _refused(refusal(param, dialect, reason), param)


def check_pictures(param: str, dialect: Dialect) -> None:
    """Raise InvalidRequest when the model's engine takes no pictures; `param` names the first one."""
    _need(Feature.PICTURES, param, dialect)


def check_form(constraint: Constraint, dialect: Dialect) -> None:
    """Raise InvalidRequest when the model's engine has no means to give an answer a certain form."""
    _need(Feature.GRAMMAR, constraint.param, dialect)


def _has_ids(request: SamplingFields) -> bool:
    if isinstance(request, CompletionRequest):
        return not all(isinstance(prompt, str) for prompt in prompts_of(request))
    return isinstance(request, ChatCompletionRequest) and request.given_ids is not None


def _need(feature: Feature, param: str, dialect: Dialect) -> None:
    sentence = lack(feature, param, dialect)
    if sentence is not None:
        raise _refused(sentence, param)


def _refused(sentence: str, param: str) -> InvalidRequest:
    return InvalidRequest(sentence, param=param, code="unsupported_parameter")
