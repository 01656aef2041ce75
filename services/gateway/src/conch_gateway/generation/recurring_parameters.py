"""What a request's parameters come to, remembered: most requests differ from an earlier one in their prompt alone.

A request is taken apart into its prompt and all else. What all else means for a model, from its validation to the
sampling parameters, is found out when it first comes; the next request with the same has it at once, and only its
prompt is looked at. So there is one description of what is valid: whatever is new or wrong meets that one, and so does
every request with a parameter that looks into the prompt.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock

import orjson
from pydantic import TypeAdapter, ValidationError

from conch_contracts.messages.message import changed, to_json
from conch_contracts.messages.tokenization import PrepareRequest
from conch_contracts.openai.chat import MAX_MESSAGES, Conversation
from conch_contracts.records import ModelKind, Profile, Route
from conch_gateway.generation.resolved import ResolvedGeneration
from conch_gateway.requests import chat_messages, content_parts, unsupported_members
from conch_gateway.requests.model_lookup import find_route
from conch_gateway.requests.tokenizer_request import conversation_fields
from conch_kit.errors import InvalidRequest, ServiceError
from conch_kit.registry.snapshot import Snapshot

MOST = 512
"""Sets of parameters that are remembered; the one that came first is forgotten first."""
MAX_BYTES = 16 * 1024
"""Of one set, as JSON: room for the tools of an agent."""

_CONVERSATION: TypeAdapter[Conversation] = TypeAdapter(Conversation)
_SPEAKERS = ("system", "developer", "user", "assistant")
_PLAIN = ("role", "content")


@dataclass(frozen=True, slots=True)
class PromptPlace:
    """Where the requests of an endpoint have their prompt."""

    param: str
    lookers: frozenset[str]
    """Parameters whose meaning depends on the prompt: a request with one of them is not remembered."""
    with_prompt: Callable[[PrepareRequest, object, Route], PrepareRequest | None]
    """Returns the tokenizer's work for another prompt; None where only the whole validation can judge that one."""
    without_prompt: Callable[[PrepareRequest], PrepareRequest]


def with_messages(work: PrepareRequest, messages: object, route: Route) -> PrepareRequest | None:
    """Return a chat's work with other messages; None for what may be no conversation."""
    if work.chat is None or not isinstance(messages, list) or not messages:
        return None
    if len(messages) <= MAX_MESSAGES and all(map(_is_plain, messages)):
        plain = tuple([{"role": one["role"], "content": one["content"]} for one in messages])
        return changed(work, chat=changed(work.chat, messages=plain, part_lengths={}))
    try:
        unsupported_members.refuse_within(messages, "messages")
        conversation = _CONVERSATION.validate_python(messages)
        if content_parts.has_pictures(conversation):  # no parameters are remembered for these
            return None
        chat_messages.check(conversation)
    except (ValidationError, InvalidRequest):
        return None
    return changed(work, chat=changed(work.chat, **conversation_fields(conversation, route)))


def with_text(work: PrepareRequest, prompt: object, route: Route) -> PrepareRequest | None:
    """Return a completion's work with another text; None for ids, several prompts, and what is none."""
    return changed(work, prompts=(prompt,)) if isinstance(prompt, str) and prompt else None


CHAT_PROMPT = PromptPlace(
    "messages",
    frozenset({"add_generation_prompt", "echo"}),
    with_messages,
    lambda work: changed(work, chat=changed(work.chat, messages=(), part_lengths={})) if work.chat else work,
)
COMPLETION_PROMPT = PromptPlace(
    "prompt", frozenset({"prompt_token_ids", "suffix"}), with_text, lambda work: changed(work, prompts=None)
)


@dataclass(frozen=True, slots=True)
class _Remembered:
    resolved: ResolvedGeneration
    work: PrepareRequest


class RecurringParameters:
    """What the parameters of the latest requests came to; threads may share it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[bytes, _Remembered] = {}
        self._changing = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def find(
        self, key: bytes, place: PromptPlace, document: Mapping[str, object], snapshot: Snapshot
    ) -> ResolvedGeneration | None:
        """Return a request whose parameters are known and whose prompt is right; None where that is not certain."""
        known = self._known.get(key)
        if known is None or not _is_routed(document, known.resolved.route, snapshot):
            return None
        work = place.with_prompt(known.work, document.get(place.param), known.resolved.route)
        return None if work is None else known.resolved.with_preparation(to_json(work))

    def remember(self, key: bytes, place: PromptPlace, resolved: ResolvedGeneration, work: PrepareRequest) -> None:
        """Keep what a request came to, without its prompt."""
        if resolved.route.profile is Profile.DENGLIN:  # its answers take the role of the last message
            return
        kept = _Remembered(replace(resolved, preparation=b""), place.without_prompt(work))
        with self._changing:
            self._known.pop(key, None)
            self._known[key] = kept
            while len(self._known) > self._most:
                del self._known[next(iter(self._known))]


def key_of(place: PromptPlace, document: Mapping[str, object]) -> bytes | None:
    """Return all of a request but its prompt; None where the two cannot be told apart, or it is too much to keep."""
    if not place.lookers.isdisjoint(document):
        return None
    try:
        written = orjson.dumps({name: value for name, value in document.items() if name != place.param})
    except TypeError:  # a number beyond 64 bits, or too deep
        return None
    return b"%b %b" % (place.param.encode(), written) if len(written) <= MAX_BYTES else None


def _is_plain(message: object) -> bool:
    """Tell whether nothing but a text was said: every conversation of such messages is right, and most are."""
    return (
        type(message) is dict
        and len(message) == len(_PLAIN)
        and type(message.get("content")) is str
        and message.get("role") in _SPEAKERS
    )


def _is_routed(document: Mapping[str, object], route: Route, snapshot: Snapshot) -> bool:
    """Tell whether the request still goes to the model that it went to."""
    name = document.get("model")
    with suppress(ServiceError):
        return find_route(snapshot, name if isinstance(name, str) else None, kinds=(ModelKind.LLM,)) is route
    return False
