"""From a validated request to what the tokenizer is asked; pure."""

from collections.abc import Sequence

from conch_contracts.openai.chat import ChatCompletionRequest, ChatMessage
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.openai.sampling import SamplingFields
from conch_contracts.records import Dialect, Route
from conch_contracts.tokenization import ChatInput, PrepareRequest
from conch_kit.errors import InvalidRequest

_STOP_AT_WORDS = (Dialect.FASTERTRANSFORMER, Dialect.TENSORRTLLM)


def chat(request: ChatCompletionRequest, route: Route) -> PrepareRequest:
    """Return what the tokenizer must do for a chat request."""
    return PrepareRequest(
        digest=route.tokenizer_digest,
        chat=None if request.prompt_token_ids is not None else _chat_input(request, route),
        prompts=None if request.prompt_token_ids is None else (tuple(request.prompt_token_ids),),
        add_special_tokens=bool(request.add_special_tokens),
        truncate_prompt_tokens=request.truncate_prompt_tokens,
        bad_words=tuple(request.bad_words or ()),
        stop_words=_stop_words(request, route),
    )


def completion(request: CompletionRequest, route: Route) -> PrepareRequest:
    """Return what the tokenizer must do for a completion request."""
    prompts = prompts_of(request)
    for index, prompt in enumerate(prompts):
        if not isinstance(prompt, str):
            check_vocabulary(prompt, route, param=f"prompt.{index}" if len(prompts) > 1 else "prompt")
    return PrepareRequest(
        digest=route.tokenizer_digest,
        prompts=prompts,
        add_special_tokens=request.add_special_tokens is not False,
        truncate_prompt_tokens=request.truncate_prompt_tokens,
        bad_words=tuple(request.bad_words or ()),
        stop_words=_stop_words(request, route),
    )


def prompts_of(request: CompletionRequest) -> tuple[str | tuple[int, ...], ...]:
    """Return the prompts of a completion request, whichever of its four forms it has."""
    if request.prompt_token_ids is not None:
        return (tuple(request.prompt_token_ids),)
    prompt = request.prompt
    if prompt is None:
        return ()
    if isinstance(prompt, str):
        return (prompt,)
    ids = tuple(item for item in prompt if isinstance(item, int))
    return (ids,) if ids else tuple(_one(item) for item in prompt if not isinstance(item, int))


def check_vocabulary(ids: Sequence[int], route: Route, *, param: str) -> None:
    """Raise InvalidRequest for an id that the model does not have."""
    if ids and max(ids) >= route.vocab_size:
        raise InvalidRequest(
            f"Expected token ids below {route.vocab_size}, found {max(ids)}.", param=param, code="invalid_value"
        )


def check_ids(request: SamplingFields, route: Route) -> None:
    """Raise InvalidRequest for any id in the request that the model does not have."""
    check_vocabulary(request.stop_token_ids or (), route, param="stop_token_ids")
    check_vocabulary(request.prompt_token_ids or (), route, param="prompt_token_ids")
    if request.logit_bias:
        check_vocabulary([int(token) for token in request.logit_bias], route, param="logit_bias")


def tokens_at_least(work: PrepareRequest) -> int:
    """Return a length that the longest prompt reaches for certain: a prompt of ids is counted before it is sent on."""
    if work.truncate_prompt_tokens is not None:
        return 0
    return max((len(prompt) for prompt in work.prompts or () if not isinstance(prompt, str)), default=0)


def stop_strings(request: SamplingFields) -> tuple[str, ...]:
    """Return the stop strings, whether one or several were given."""
    return (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())


def _chat_input(request: ChatCompletionRequest, route: Route) -> ChatInput:
    return ChatInput(
        messages=tuple(flat(message) for message in request.messages or ()),
        add_generation_prompt=request.add_generation_prompt is not False,
        continue_final_message=bool(request.continue_final_message),
        chat_template=route.chat_template,
    )


def flat(message: ChatMessage) -> dict[str, object]:
    """Return the message as templates expect it: its text parts joined, absent fields left out."""
    content = message.content
    flat: dict[str, object] = {
        "role": message.role,
        "content": content if isinstance(content, str) else "\n".join(part.text for part in content),
    }
    if message.name is not None:
        flat["name"] = message.name
    if message.reasoning_content is not None:
        flat["reasoning_content"] = message.reasoning_content
    return flat


def _stop_words(request: SamplingFields, route: Route) -> tuple[str, ...]:
    """Return the stop strings that the engine shall know as ids; only some dialects stop at words."""
    return stop_strings(request) if route.dialect in _STOP_AT_WORDS else ()


def _one(prompt: str | list[int]) -> str | tuple[int, ...]:
    return prompt if isinstance(prompt, str) else tuple(prompt)
