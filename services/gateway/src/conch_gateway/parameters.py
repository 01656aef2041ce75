"""From a validated request, its route and the counted prompt to the worker's message; pure.

Every default is filled in here: the request's own value, else the model's, else the API's. What the tokenizer is
asked before that is in `preparation.py`.
"""

from dataclasses import dataclass
from typing import TypeVar

from conch_contracts.generation import Api, BackendOptions, SamplingParameters
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.openai.sampling import INT64_MAX, SamplingFields
from conch_contracts.records import Route
from conch_contracts.tokenization import PrepareResponse
from conch_kit.errors import InvalidRequest

T = TypeVar("T")

COMPLETION_TOKENS = 16
"""What OpenAI gives a text completion that names no limit."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How the answer looks, as far as chat and text completions differ."""

    api: Api
    prompt_param: str
    """Which parameter an error about the prompt names."""
    limit_param: str
    max_tokens: int | None
    """What the client asked for."""
    default_max_tokens: int | None
    """What the API gives when neither client nor model says; None: the rest of the context."""
    alternatives: int | None
    """Alternatives to show per token; None: no log probabilities."""
    echo: bool = False
    role: str = "assistant"


def chat_shape(request: ChatCompletionRequest) -> Shape:
    """Return how the answer to a chat request looks."""
    by_new_name = request.max_completion_tokens is not None
    return Shape(
        api=Api.CHAT,
        prompt_param="messages",
        limit_param="max_completion_tokens" if by_new_name else "max_tokens",
        max_tokens=request.max_completion_tokens if by_new_name else request.max_tokens,
        default_max_tokens=None,
        alternatives=(request.top_logprobs or 0) if request.logprobs else None,
        role=_role(request),
    )


def completion_shape(request: CompletionRequest) -> Shape:
    """Return how the answer to a completion request looks."""
    return Shape(
        api=Api.COMPLETION,
        prompt_param="prompt",
        limit_param="max_tokens",
        max_tokens=request.max_tokens,
        default_max_tokens=COMPLETION_TOKENS,
        alternatives=request.logprobs,
        echo=bool(request.echo),
    )


def sampling(request: SamplingFields, shape: Shape, route: Route, prepared: PrepareResponse) -> SamplingParameters:
    """Return the complete sampling parameters; raises InvalidRequest when the context is too small."""
    model = route.generation
    longest = max((len(prompt.ids) for prompt in prepared.prompts), default=0)
    max_tokens = output_limit(shape, route, longest)
    min_tokens = request.min_tokens or 0
    if min_tokens > max_tokens:
        raise InvalidRequest(
            f"'min_tokens' ({min_tokens}) is above the limit of {max_tokens} output tokens.",
            param="min_tokens",
            code="invalid_value",
        )
    return SamplingParameters(
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        temperature=_first(request.temperature, model.temperature, 1.0),
        top_p=_first(request.top_p, model.top_p, 1.0),
        top_k=max(0, _first(request.top_k, model.top_k, 0)),
        min_p=request.min_p or 0.0,
        repetition_penalty=_first(request.repetition_penalty, model.repetition_penalty, 1.0),
        frequency_penalty=request.frequency_penalty or 0.0,
        presence_penalty=request.presence_penalty or 0.0,
        # Engines seed with a number that is not negative; the fold keeps equal seeds equal.
        seed=None if request.seed is None else request.seed & INT64_MAX,
        ignore_eos=bool(request.ignore_eos),
        eos_token_ids=route.eos_token_ids,
        stop_token_ids=_stop_token_ids(request, route),
        logit_bias={int(token): bias for token, bias in (request.logit_bias or {}).items()},
        bad_words=model.bad_words + prepared.bad_words,
        logprobs=shape.alternatives,
        prompt_logprobs=shape.alternatives if shape.echo else None,
    )


def backend_options(route: Route, prepared: PrepareResponse) -> BackendOptions:
    """Return the values that only some dialects send; a negative id means that it is not sent."""
    model = route.generation
    return BackendOptions(
        start_id=model.start_id if model.start_id is not None and model.start_id >= 0 else None,
        end_id=model.end_id if model.end_id is not None and model.end_id >= 0 else None,
        mask_positions=model.mask_positions,
        stop_words=model.stop_words + prepared.stop_words,
    )


def output_limit(shape: Shape, route: Route, prompt_tokens: int) -> int:
    """Return how many tokens may come out; raises InvalidRequest when prompt and answer exceed the context."""
    context = route.max_model_len
    rest = context - prompt_tokens
    asked = shape.max_tokens
    if asked is None:
        if rest < 1:
            raise _too_long(shape, context, f"your {shape.prompt_param} resulted in {prompt_tokens} tokens")
        default = _first(route.generation.max_tokens, shape.default_max_tokens, rest)
        return min(rest, default)
    if asked > rest:
        requested = (
            f"you requested {prompt_tokens + asked} tokens ({prompt_tokens} in the {shape.prompt_param}, "
            f"{asked} in the completion)"
        )
        raise _too_long(shape, context, requested)
    return asked


def _too_long(shape: Shape, context: int, requested: str) -> InvalidRequest:
    return InvalidRequest(
        f"This model's maximum context length is {context} tokens. However, {requested}. "
        f"Please reduce the length of the {shape.prompt_param} or of the completion.",
        param=shape.prompt_param,
        code="context_length_exceeded",
    )


def _role(request: ChatCompletionRequest) -> str:
    if request.add_generation_prompt is False and request.messages:
        return request.messages[-1].role
    return "assistant"


def _stop_token_ids(request: SamplingFields, route: Route) -> tuple[int, ...]:
    single = (word[0] for word in route.generation.stop_words if len(word) == 1)
    return tuple(dict.fromkeys((*(request.stop_token_ids or ()), *single)))


def _first(*values: T | None) -> T:
    return next(value for value in values if value is not None)
