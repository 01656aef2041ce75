"""From a JSON object to a typed request, or one error that names the parameter; pure.

Of the parameters that the types in `conch_contracts.openai` lack, `unsupported_parameters.py` says which are refused,
and of those of messages and tools `unsupported_members.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from conch_contracts.anthropic.request import PromptFields
from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.openai.sampling import SamplingFields, is_on
from conch_gateway.constraints import tool_use
from conch_gateway.errors.bad_request import MAX_PARAM_CHARS, conflicting, invalid, missing, unsupported
from conch_gateway.requests import chat_messages, unsupported_members, unsupported_parameters
from conch_gateway.requests.error_path import error_path
from conch_gateway.requests.thinking_words import in_our_words
from conch_kit.errors import InvalidRequest

R = TypeVar("R", bound=SamplingFields)
M = TypeVar("M", bound=ApiModel)

MAX_REASON_CHARS = 180

_METADATA = {("min_tokens", int), ("enable_thinking", bool)}
"""What need not be text in the metadata: FastDeploy's clients used to say it there."""

_PYDANTIC_PHRASES = (
    (re.compile(r"^Input should be|^\w+ should have"), "expected"),
    (re.compile(r"^String should match pattern"), "expected text that matches"),
    (re.compile(r"a valid dictionary( or (instance of \w+|object to extract fields from))?"), "an object"),
    (
        re.compile(r"^Input tag '(.*)' found using '(\w+)' does not match any of the expected tags: "),
        r"'\2' must be one of ",
    ),
    (re.compile(r"^Unable to extract tag using discriminator "), "there is no "),
    (re.compile(r" after validation, not .*"), ""),
    (re.compile(r"^Extra inputs are not permitted"), "there is no such field here"),
)
"""What pydantic says of its own types, and what a client understands."""


@dataclass(frozen=True, slots=True)
class Validated(Generic[M]):
    """A request that obeys the schema, and how many of its fields nobody knows."""

    request: M
    unknown_fields: int


def chat(document: dict[str, object]) -> Validated[ChatCompletionRequest]:
    """Validate a chat request."""
    validated = _validate(ChatCompletionRequest, _without_empty("messages", document))
    request = validated.request
    if request.messages is None and request.prompt_token_ids is None:
        raise missing("messages")
    if request.top_logprobs and not request.logprobs:
        raise conflicting("top_logprobs", "needs 'logprobs': true")
    _check_named_ids(request, shown=bool(request.logprobs))
    if request.continue_final_message and request.add_generation_prompt is not False:
        raise conflicting("continue_final_message", "needs 'add_generation_prompt': false")
    if request.disable_chat_template:
        if request.chat_template is not None:
            raise conflicting("disable_chat_template", "cannot be together with 'chat_template'")
        if not request.conversation and request.prompt_token_ids is None:
            raise conflicting("disable_chat_template", "needs 'messages' with a text")
    chat_messages.check(request.conversation)
    tool_use.check(request)
    return Validated(in_our_words(request), validated.unknown_fields)


def completion(document: dict[str, object]) -> Validated[CompletionRequest]:
    """Validate a completion request."""
    validated = _validate(CompletionRequest, _without_empty("prompt", document))
    request = validated.request
    if request.prompt is None and request.prompt_token_ids is None:
        raise missing("prompt")
    if request.max_tokens == 0 and not request.echo:
        raise conflicting("max_tokens", "may be 0 only with 'echo'")
    if request.max_tokens == 0 and request.logprob_token_ids:
        raise conflicting("logprob_token_ids", "needs 'max_tokens' above 0: a prompt shows its likeliest alternatives")
    _check_named_ids(request, shown=request.logprobs is not None)
    return validated


def typed(kind: type[M], document: dict[str, object]) -> tuple[M, int]:
    """Return the document as a request of this type, and how many of its fields nobody knows; raises InvalidRequest."""
    extra = document.keys() - kind.model_fields.keys()
    unknown = unsupported_parameters.refuse(kind, document, extra) if extra else 0
    if not issubclass(kind, PromptFields):  # those have turns and tools of their own
        unsupported_members.refuse(document, kind.model_fields)
    try:
        return kind.model_validate(document), unknown
    except ValidationError as exc:
        raise _as_invalid(exc, kind, document) from None


def _validate(kind: type[R], document: dict[str, object]) -> Validated[R]:
    request, unknown = typed(kind, document)
    _check_together(request)
    return Validated(request, unknown)


def _without_empty(prompt: str, document: dict[str, object]) -> dict[str, object]:
    """Return the document without a prompt that is empty because the request has its ids instead.

    Clients that cannot leave the prompt out send it like this.
    """
    if document.get("prompt_token_ids") is None or document.get(prompt) not in ("", []):
        return document
    return {**document, prompt: None}


def _check_together(request: SamplingFields) -> None:
    """Raise for parameters that are right by themselves and wrong together."""
    stream = is_on(request.stream)
    if request.stream_options is not None and not stream:
        raise conflicting("stream_options", "needs 'stream': true")
    if request.stream_options is not None and request.stream_options.include_obfuscation:
        raise unsupported("stream_options.include_obfuscation")
    if request.prompt_logprobs is not None and stream:
        raise conflicting("prompt_logprobs", "cannot be streamed")
    if request.best_of is not None:
        if request.best_of < (request.n or 1):
            raise conflicting("best_of", f"must be at least 'n', which is {request.n or 1}")
        if request.best_of > (request.n or 1) and stream:
            raise conflicting("best_of", "above 'n' cannot be streamed")
    if request.use_beam_search:
        _check_search(request, stream=stream)
    for key, value in (request.metadata or {}).items():
        if not isinstance(value, str) and (key, type(value)) not in _METADATA:
            raise invalid(f"metadata.{key}", "expected a valid string")
    if request.length_penalty not in (None, 1) and not request.use_beam_search:
        raise conflicting("length_penalty", "needs 'use_beam_search': true")


def _check_named_ids(request: SamplingFields, *, shown: bool) -> None:
    """Raise where the log probabilities of named ids would be shown nowhere."""
    if not request.logprob_token_ids:
        return
    if not shown:
        raise conflicting("logprob_token_ids", "needs 'logprobs'")
    if request.use_beam_search:
        raise conflicting("logprob_token_ids", "has no meaning with 'use_beam_search'")


def _check_search(request: SamplingFields, *, stream: bool) -> None:
    """Raise for what has no meaning where tokens are searched for instead of drawn."""
    if stream:
        raise conflicting("use_beam_search", "cannot be streamed")
    for param, value, off in (
        ("top_p", request.top_p, (None, 1)),
        ("top_k", request.top_k, (None, 0, -1)),
        ("min_p", request.min_p, (None, 0)),
    ):
        if value not in off:
            raise conflicting(param, "has no meaning with 'use_beam_search'")


def _as_invalid(exc: ValidationError, kind: type[ApiModel], document: object) -> InvalidRequest:
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    paths = [error_path(kind, error["loc"], document, missing=error["type"] == "missing") for error in errors]
    found = [(_reach(error, path), path, error) for error, path in zip(errors, paths, strict=True)]
    furthest, deepest, _ = max(found, key=lambda entry: entry[0])
    related = [error for reach, path, error in found if path == deepest and reach == furthest]
    param = ".".join(deepest)[:MAX_PARAM_CHARS]
    if any(error["type"] == "missing" for error in related):
        return missing(param)
    return invalid(param, _reason(related))


def _reach(error: ErrorDetails, path: tuple[str, ...]) -> tuple[bool, int, int]:
    """Return how far into the document an alternative got before it failed: the furthest was meant.

    A list that is too long for it had items that all suited it.
    """
    return error["type"] == "too_long", len(path), int(path[-1]) if path and path[-1].isdecimal() else 0


def _reason(errors: Sequence[ErrorDetails]) -> str:
    reasons = dict.fromkeys(_in_our_words(error["msg"]) for error in errors)
    return ", or ".join(reasons)[:MAX_REASON_CHARS]


def _in_our_words(message: str) -> str:
    for phrase, words in _PYDANTIC_PHRASES:
        message = phrase.sub(words, message)
    return message
