"""From a validated request to what the tokenizer is asked; pure."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from conch_contracts.messages.tokenization import ChatInput, PrepareRequest
from conch_contracts.openai.chat import ChatCompletionRequest, ChatMessage
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.openai.sampling import SamplingFields
from conch_contracts.records import ContentFormat, Dialect, Profile, Route
from conch_contracts.spec.generation import PREFIX, SUFFIX
from conch_gateway.constraints import tool_use
from conch_gateway.errors.bad_request import conflicting
from conch_gateway.requests import content_parts, thinking
from conch_gateway.requests.chat_messages import as_templates_expect, part_lengths, plain_text
from conch_kit.errors import InvalidRequest

ANSWER_TOKENS = 16
"""What a prompt that is cut to the context leaves for an answer without a limit, or with one that may be lowered."""

_GAPS = re.compile(f"({PREFIX}|{SUFFIX})")
_STOP_AT_WORDS = (Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM)


def chat(request: ChatCompletionRequest, route: Route) -> PrepareRequest:
    """Return what the tokenizer must do for a chat request; raises InvalidRequest."""
    prompt = _raw_prompt(request)
    if prompt is None:
        tool_use.check_route(request, route)
    if content_parts.has_pictures(request.conversation):
        _check_alone(request, prompt)
    thinking.check_route(request, route)
    return PrepareRequest(
        digest=route.tokenizer_digest,
        chat=_chat_input(request, route) if prompt is None else None,
        prompts=None if prompt is None else (prompt,),
        add_special_tokens=bool(request.add_special_tokens),
        truncate_prompt_tokens=_kept(request, request.max_completion_tokens or request.max_tokens, route),
        truncation_side=request.truncation_side or "left",
        context=route.max_model_len,
        bad_words=tuple(request.bad_words or ()),
        stop_words=_stop_words(request, route),
        marks=thinking.marks(request, route),
        **content_parts.sight(route),
    )


def completion(request: CompletionRequest, route: Route) -> PrepareRequest:
    """Return what the tokenizer must do for a completion request; raises InvalidRequest."""
    prompts = prompts_of(request)
    for index, prompt in enumerate(prompts):
        if not isinstance(prompt, str):
            check_vocabulary(prompt, route, param=f"prompt.{index}" if len(prompts) > 1 else "prompt")
    return PrepareRequest(
        digest=route.tokenizer_digest,
        prompts=_with_suffix(prompts, request.suffix, route) if request.suffix else prompts,
        add_special_tokens=request.add_special_tokens is not False,
        truncate_prompt_tokens=_kept(request, request.max_tokens, route),
        truncation_side=request.truncation_side or "left",
        context=route.max_model_len,
        bad_words=tuple(request.bad_words or ()),
        stop_words=_stop_words(request, route),
        **content_parts.sight(route),
    )


def rendering(messages: Sequence[ChatMessage], route: Route, template: str | None = None) -> partial[ChatInput]:
    """Return what asks for a conversation in the model's template, or in one that the request brings."""
    return partial(
        ChatInput,
        **conversation_fields(messages, route),
        content_format=ContentFormat.AUTO if template else route.chat.content_format,
        chat_template=template or route.chat_template,
        chat_template_param="chat_template" if template else "messages",
    )


def conversation_fields(messages: Sequence[ChatMessage], route: Route) -> dict[str, Any]:
    """Return those fields of a `ChatInput` that say what was said and shown; raises InvalidRequest."""
    pictures = content_parts.pictures(messages, route)
    if pictures:
        messages = content_parts.results_shown(messages)
    return {
        "messages": as_templates_expect(messages, route.chat.tool_calls),
        "part_lengths": part_lengths(messages),
        "pictures": pictures,
    }


def prompts_of(request: CompletionRequest) -> tuple[str | tuple[int, ...], ...]:
    """Return the prompts of a completion request, whichever of its four forms it has."""
    if request.prompt_token_ids is not None:
        return (tuple(request.prompt_token_ids),)
    prompt = request.prompt
    if prompt is None:
        return ()
    if isinstance(prompt, str):
        return (prompt,)
    if isinstance(prompt[0], int):  # as all others are then: there may be a million of them
        return (tuple(prompt),)
    return tuple(_one(item) for item in prompt)


def check_vocabulary(ids: Sequence[int], route: Route, *, param: str) -> None:
    """Raise InvalidRequest for an id that the model does not have."""
    if ids and max(ids) >= route.vocab_size:
        raise InvalidRequest(
            f"Token id {max(ids)} is out of vocabulary: expected ids below {route.vocab_size}.",
            param=param,
            code="invalid_value",
        )


def check_ids(request: SamplingFields, route: Route) -> None:
    """Raise InvalidRequest for any id in the request that the model does not have."""
    check_vocabulary(request.stop_token_ids or (), route, param="stop_token_ids")
    check_vocabulary(request.prompt_token_ids or (), route, param="prompt_token_ids")
    check_vocabulary(request.bad_words_token_ids or (), route, param="bad_words_token_ids")
    check_vocabulary(request.allowed_token_ids or (), route, param="allowed_token_ids")
    check_vocabulary(request.logprob_token_ids or (), route, param="logprob_token_ids")
    if isinstance(request, ChatCompletionRequest) and request.prompt_token_ids is None:
        check_vocabulary(request.given_ids or (), route, param="messages")
    if request.logit_bias:
        check_vocabulary([int(token) for token in request.logit_bias], route, param="logit_bias")


def tokens_at_least(work: PrepareRequest) -> int:
    """Return a length that the longest prompt reaches for certain: a prompt of ids is counted before it is sent on."""
    if work.truncate_prompt_tokens is not None:
        return 0
    return max((len(prompt) for prompt in work.prompts or () if not isinstance(prompt, str)), default=0)


def stop_strings(request: SamplingFields) -> tuple[str, ...]:
    """Return the stop strings, whether one or several were given; an empty one stands for none."""
    given = [request.stop] if isinstance(request.stop, str) else request.stop or []
    return tuple(filter(None, given))


def _raw_prompt(request: ChatCompletionRequest) -> str | tuple[int, ...] | None:
    """Return the prompt of a chat that is not rendered; None for a conversation."""
    ids = request.given_ids
    if ids is not None:
        return tuple(ids)
    return plain_text(request.conversation[0]) if request.disable_chat_template else None


def _check_alone(request: ChatCompletionRequest, prompt: str | tuple[int, ...] | None) -> None:
    """Raise InvalidRequest for what cannot be beside pictures."""
    if prompt is not None:
        name = "disable_chat_template" if request.given_ids is None else "prompt_token_ids"
        raise conflicting(name, "cannot be together with pictures: the chat template gives them their places")
    if request.truncate_prompt_tokens is not None:
        raise conflicting("truncate_prompt_tokens", "cannot be together with pictures: half of one shows nothing")


def _chat_input(request: ChatCompletionRequest, route: Route) -> ChatInput:
    return rendering(request.conversation, route, request.chat_template)(
        tools=tool_use.for_template(request),
        documents=None if request.documents is None else tuple(request.documents),
        add_generation_prompt=request.add_generation_prompt is not False,
        continue_final_message=bool(request.continue_final_message),
        template_kwargs={**thinking.template_variables(request, route.profile), **(request.chat_template_kwargs or {})},
    )


def _kept(request: SamplingFields, answer: int | None, route: Route) -> int | None:
    """Return how many tokens of the prompt are kept; None: all.

    A FastDeploy server lowers an answer's limit to what the prompt leaves, so there no large limit cuts the prompt.
    """
    if request.truncate_prompt_tokens != -1:
        return request.truncate_prompt_tokens
    room = ANSWER_TOKENS if answer is None else answer
    if route.profile is Profile.FASTDEPLOY:
        room = min(room, ANSWER_TOKENS)
    return max(1, route.max_model_len - room)


def _with_suffix(
    prompts: Sequence[str | tuple[int, ...]], suffix: str, route: Route
) -> tuple[str | tuple[int, ...], ...]:
    """Return the prompts with what comes behind the gap, in the form that the model was trained on."""
    template = route.generation.fill_in
    if template is None:
        raise InvalidRequest(
            "This model has no fill-in template, so it cannot take a 'suffix'.",
            param="suffix",
            code="unsupported_parameter",
        )
    pieces = _GAPS.split(template)
    filled = [prompt for prompt in prompts if isinstance(prompt, str)]
    if len(filled) != len(prompts):
        raise InvalidRequest("A 'suffix' needs a prompt of text.", param="suffix", code="invalid_value")
    return tuple("".join({PREFIX: prompt, SUFFIX: suffix}.get(piece, piece) for piece in pieces) for prompt in filled)


def _stop_words(request: SamplingFields, route: Route) -> tuple[str, ...]:
    """Return the stop strings that the engine shall know as ids; only some dialects stop at words."""
    return stop_strings(request) if route.dialect in _STOP_AT_WORDS else ()


def _one(prompt: str | list[int]) -> str | tuple[int, ...]:
    return prompt if isinstance(prompt, str) else tuple(prompt)
