"""Refuses what the model's backend cannot obey, before anything is asked of the tokenizer or an engine; pure.

The table is `conch_contracts.capabilities`. What depends on the tensors that a model declares is refused by the worker.
"""

from conch_contracts.capabilities import CAPABILITIES, LACKS, Feature, Level, asks_for_nothing, refusal
from conch_contracts.generation import Api
from conch_contracts.openai.sampling import SamplingFields
from conch_contracts.records import Dialect
from conch_gateway.parameters import Shape
from conch_kit.errors import InvalidRequest


def check(request: SamplingFields, shape: Shape, dialect: Dialect) -> None:
    """Raise InvalidRequest for the first parameter that the dialect can never obey."""
    lacks = LACKS[dialect]
    for param in sorted(request.model_fields_set & lacks.keys()):
        if not asks_for_nothing(param, dict(request)[param]):
            raise _refused(param, dialect, lacks[param])
    if shape.alternatives is None:
        return
    if shape.echo:
        _need(Feature.PROMPT_LOGPROBS, "echo", dialect)
    _need(Feature.LOGPROBS, "logprobs", dialect)
    if shape.alternatives:
        _need(Feature.ALTERNATIVES, "top_logprobs" if shape.api is Api.CHAT else "logprobs", dialect)


def _need(feature: Feature, param: str, dialect: Dialect) -> None:
    support = CAPABILITIES[dialect][feature]
    if support.level is Level.NO:
        raise _refused(param, dialect, support.note)


def _refused(param: str, dialect: Dialect, reason: str) -> InvalidRequest:
    return InvalidRequest(refusal(param, dialect, reason), param=param, code="unsupported_parameter")
