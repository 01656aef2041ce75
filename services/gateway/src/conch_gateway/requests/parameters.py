"""From a validated request, its route and the counted prompt to the worker's message; pure.

Every default is filled in here: the request's own value, else the model's, else the API's. What the tokenizer is
asked before that is in `tokenizer_request.py`.
"""

from dataclasses import dataclass
from typing import TypeVar

from conch_contracts.messages.generation import Api, BackendOptions, Details, SamplingParameters
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.openai.sampling import INT64_MAX, SamplingFields, is_on
from conch_contracts.records import Dialect, Profile, Route, StreamUsage
from conch_gateway.errors.bad_request import invalid
from conch_gateway.requests.chat_messages import plain_text
from conch_kit.errors import InvalidRequest

T = TypeVar("T")

_PLAIN = Details()
_OF_DETAILS = frozenset(
    {
        "prompt_logprobs",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "spaces_between_special_tokens",
        "max_streaming_response_tokens",
        "stream_options",
        "service_tier",
        "metadata",
        "kv_transfer_params",
    }
)
"""Parameters that can make an answer more than plain; most requests have none of them."""

_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_ONLY_THE_LIKELIEST = 1e-6
"""A `top_p` that leaves one token: engines take none of 0."""
_DECLARING = (Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM)
"""Dialects whose models declare which parameters they take."""

PROMPT_IDS = "prompt_token_ids"
"""Under which name a prompt may come in place of an API's own."""
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
    prefix: str = ""
    """Text that each choice begins with."""
    limit_gives_way: bool = False
    """Whether a limit above what the context leaves is lowered to that."""


def chat_shape(request: ChatCompletionRequest, profile: Profile = Profile.OPENAI) -> Shape:
    """Return how the answer to a chat request looks."""
    by_new_name = request.max_completion_tokens is not None
    return Shape(
        api=Api.CHAT,
        prompt_param="messages" if request.prompt_token_ids is None else PROMPT_IDS,
        limit_param="max_completion_tokens" if by_new_name else "max_tokens",
        max_tokens=request.max_completion_tokens if by_new_name else request.max_tokens,
        default_max_tokens=None,
        alternatives=(request.top_logprobs or 0) if request.logprobs else None,
        role=_role(request, profile),
        prefix=_echoed(request) if request.echo else "",
        limit_gives_way=profile is Profile.FASTDEPLOY,
    )


def completion_shape(request: CompletionRequest, profile: Profile = Profile.OPENAI) -> Shape:
    """Return how the answer to a completion request looks."""
    return Shape(
        api=Api.COMPLETION,
        prompt_param="prompt" if request.prompt_token_ids is None else PROMPT_IDS,
        limit_param="max_tokens",
        max_tokens=request.max_tokens,
        default_max_tokens=COMPLETION_TOKENS,
        alternatives=request.logprobs,
        echo=bool(request.echo),
        limit_gives_way=profile is Profile.FASTDEPLOY,
    )


def sampling(request: SamplingFields, shape: Shape, route: Route, prepared: PrepareResponse) -> SamplingParameters:
    """Return the complete sampling parameters; raises InvalidRequest when the context is too small."""
    model = route.generation
    max_tokens = output_limit(shape, route, longest(prepared))
    min_tokens = _min_tokens(request)
    temperature = _first(request.temperature, model.temperature, 1.0)
    top_p = _first(request.top_p, model.top_p, 1.0)
    if top_p == 0:  # only the likeliest token
        temperature, top_p = (temperature, _ONLY_THE_LIKELIEST) if _reshapes_logprobs(request) else (0.0, 1.0)
    check_lengths(min_tokens, max_tokens)
    return SamplingParameters(
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=max(0, _first(request.top_k, model.top_k, 0)),
        min_p=_first(request.min_p, model.min_p, 0.0),
        repetition_penalty=_first(request.repetition_penalty, model.repetition_penalty, 1.0),
        frequency_penalty=request.frequency_penalty or 0.0,
        presence_penalty=request.presence_penalty or 0.0,
        # Engines seed with a number that is not negative; the fold keeps equal seeds equal.
        seed=None if request.seed is None else request.seed & INT64_MAX,
        ignore_eos=bool(request.ignore_eos),
        eos_token_ids=route.eos_token_ids,
        stop_token_ids=_stop_token_ids(request, route),
        logit_bias={int(token): bias for token, bias in (request.logit_bias or {}).items()},
        bad_words=model.bad_words + prepared.bad_words + tuple((id_,) for id_ in request.bad_words_token_ids or ()),
        allowed_token_ids=None if request.allowed_token_ids is None else tuple(request.allowed_token_ids),
        logprobs=0 if shape.alternatives is None and _ranks(request) else shape.alternatives,
        logprob_token_ids=tuple(request.logprob_token_ids or ()),
        prompt_logprobs=_prompt_logprobs(request, shape),
        temp_scaled_logprobs=bool(request.temp_scaled_logprobs),
        top_p_normalized_logprobs=bool(request.top_p_normalized_logprobs),
        beams=(request.best_of or request.n or 1) if request.use_beam_search else None,
        length_penalty=1.0 if request.length_penalty is None else request.length_penalty,
    )


def longest(prepared: PrepareResponse) -> int:
    """Return how many ids the longest prompt has."""
    return max((len(prompt.ids) for prompt in prepared.prompts), default=0)


def check_lengths(min_tokens: int, max_tokens: int) -> None:
    """Raise InvalidRequest for an answer that may not be as long as it must be."""
    if min_tokens > max_tokens:
        raise InvalidRequest(
            f"'min_tokens' ({min_tokens}) is above the limit of {max_tokens} output tokens.",
            param="min_tokens",
            code="invalid_value",
        )


def check_habits(request: SamplingFields, profile: Profile) -> None:
    """Raise InvalidRequest for a value that only servers with other habits take."""
    if request.top_p == 0 and profile is not Profile.FASTDEPLOY:
        raise invalid("top_p", "expected a number above 0")
    if profile is not Profile.FASTDEPLOY:
        if request.stop == "":
            raise invalid("stop", "expected a text that is not empty")
        if isinstance(request.stop, list) and "" in request.stop:
            raise invalid(f"stop.{request.stop.index('')}", "expected a text that is not empty")
    if isinstance((request.metadata or {}).get("enable_thinking"), bool) and not (
        profile is Profile.FASTDEPLOY and isinstance(request, ChatCompletionRequest)
    ):
        raise invalid("metadata.enable_thinking", "expected a valid string; use 'enable_thinking' of chat")


def bad_words_param(request: SamplingFields) -> str:
    """Return which parameter the words that must not appear are to be refused as."""
    return "bad_words_token_ids" if request.bad_words_token_ids and not request.bad_words else "bad_words"


def defaulted(request: SamplingFields, route: Route) -> tuple[str, ...]:
    """Return which parameters only the model's defaults ask for, where its engines may lack them."""
    if route.dialect not in _DECLARING:
        return ()
    model = route.generation
    return tuple(name for name in _DEFAULTS if getattr(request, name) is None and getattr(model, name) is not None)


def backend_options(request: SamplingFields, route: Route, prepared: PrepareResponse) -> BackendOptions:
    """Return the values that only some dialects send; a negative id means that it is not sent."""
    model = route.generation
    return BackendOptions(
        start_id=model.start_id if model.start_id is not None and model.start_id >= 0 else None,
        end_id=model.end_id if model.end_id is not None and model.end_id >= 0 else None,
        mask_positions=model.mask_positions,
        stop_words=model.stop_words + prepared.stop_words,
        cache_salt=request.cache_salt,
        extra_arguments=request.vllm_xargs or {},
        vocab_size=route.vocab_size if request.logit_bias or request.allowed_token_ids else None,
        kv_transfer=request.kv_transfer_params,
    )


def details(request: SamplingFields, shape: Shape, route: Route) -> Details | None:
    """Return what the answer shows beside its text; None for a plain one."""
    at_end = route.stream_usage is StreamUsage.FINAL_CHUNK
    plain = route.profile is Profile.OPENAI and not at_end and not shape.prefix
    if plain and request.model_fields_set.isdisjoint(_OF_DETAILS):
        return None
    stream = is_on(request.stream)
    made = Details(
        prefix=shape.prefix,
        prompt_logprobs=request.prompt_logprobs,
        token_ids=bool(request.return_token_ids),
        tokens_as_ids=bool(request.return_tokens_as_token_ids),
        spaces_between_special_tokens=request.spaces_between_special_tokens is not False,
        max_frame_tokens=request.max_streaming_response_tokens if stream else None,
        continuous_usage=_counts_on(request, route),
        service_tier=None if request.service_tier is None else "default",
        metadata=None if stream else request.metadata,
        kv_transfer=None if stream else request.kv_transfer_params,
        profile=route.profile,
        final_usage=at_end if stream and route.stream_usage is not None else None,
    )
    return None if made == _PLAIN else made


def includes_usage(request: SamplingFields, route: Route) -> bool:
    """Return whether a stream ends with a frame that tells the usage."""
    options = request.stream_options
    return bool(options and options.include_usage) or route.stream_usage is StreamUsage.ALWAYS


def _counts_on(request: SamplingFields, route: Route) -> bool:
    """Return whether every frame tells the usage so far: never where neither request nor deployment want any."""
    options = request.stream_options
    if options is None or not options.continuous_usage_stats:
        return False
    return options.include_usage is not False or route.stream_usage is StreamUsage.ALWAYS


def best_of(request: SamplingFields) -> int | None:
    """Return how many choices are made of each prompt, where that is more than come back."""
    n = request.n or 1
    return request.best_of if request.best_of is not None and request.best_of > n else None


def _ranks(request: SamplingFields) -> bool:
    """Return whether the worker chooses among what was made; a beam search does so by itself."""
    return best_of(request) is not None and not request.use_beam_search


def output_limit(shape: Shape, route: Route, prompt_tokens: int) -> int:
    """Return how many tokens may come out; raises InvalidRequest when prompt and answer exceed the context.

    Where the prompt alone would fit, the answer's limit is what is wrong, unless it gives way.
    """
    context, asked, prompt = route.max_model_len, shape.max_tokens, shape.prompt_param
    rest = context - prompt_tokens
    if asked is None and rest >= 1:
        return min(rest, _first(route.generation.max_tokens, shape.default_max_tokens, rest))
    if asked is not None and asked <= rest:
        return asked
    if asked is not None and rest >= 1 and shape.limit_gives_way:
        return rest
    if rest < 1:
        raise prompt_too_long(context, prompt_tokens, param=prompt)
    parts = f"({prompt_tokens} in the {prompt}, {asked} in the completion)" if prompt_tokens else "in the completion"
    found = f"you requested {prompt_tokens + (asked or 0)} tokens {parts}. Please reduce '{shape.limit_param}'"
    raise _too_long(context, found, param=shape.limit_param)


def prompt_too_long(context: int, tokens: int, *, param: str) -> InvalidRequest:
    """Return the error for a prompt of so many tokens."""
    found = f"your {param} resulted in {tokens} tokens. Please reduce the length of the {param}"
    return _too_long(context, found, param=param)


def _too_long(context: int, found: str, *, param: str) -> InvalidRequest:
    return InvalidRequest(
        f"This model's maximum context length is {context} tokens. However, {found}.",
        param=param,
        code="context_length_exceeded",
    )


def _reshapes_logprobs(request: SamplingFields) -> bool:
    """Return whether temperature and `top_p` change the log probabilities that are reported."""
    return bool(request.temp_scaled_logprobs or request.top_p_normalized_logprobs)


def _role(request: ChatCompletionRequest, profile: Profile) -> str:
    messages = request.conversation
    if messages and (request.add_generation_prompt is False or profile is Profile.DENGLIN):
        return messages[-1].role
    return "assistant"


def _echoed(request: ChatCompletionRequest) -> str:
    """Return the text of the last message, if the answer continues the same role."""
    messages = request.conversation
    if not messages or messages[-1].role != _role(request, Profile.OPENAI):
        return ""
    return plain_text(messages[-1])


def _min_tokens(request: SamplingFields) -> int:
    """Return the least length; FastDeploy's clients used to say it in `metadata`."""
    if request.min_tokens is not None or not request.metadata:
        return request.min_tokens or 0
    said = request.metadata.get("min_tokens", 0)
    if not str(said).isdecimal():
        raise invalid("metadata.min_tokens", f"expected a number that is not negative, found {said!r:.40}")
    return int(said)


def _prompt_logprobs(request: SamplingFields, shape: Shape) -> int | None:
    """Return how many alternatives the engine reports for the prompt's tokens: what any part of the answer shows."""
    shown = (request.prompt_logprobs, shape.alternatives if shape.echo else None)
    return max((count for count in shown if count is not None), default=None)


def _stop_token_ids(request: SamplingFields, route: Route) -> tuple[int, ...]:
    single = (word[0] for word in route.generation.stop_words if len(word) == 1)
    return tuple(dict.fromkeys((*(request.stop_token_ids or ()), *single)))


def _first(*values: T | None) -> T:
    return next(value for value in values if value is not None)
