"""The complete JSON body of an answer that is not streamed.

What vLLM and FastDeploy show on request is null where nobody asked, as theirs is: clients read it from any answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from conch_contracts.messages.generation import Api, GenerateRequest, Usage
from conch_kit.json_bytes import json_bytes
from conch_llm_worker.bodies.chat_message import MessageParts
from conch_llm_worker.bodies.logprobs import GrowingLogprobs, Json, chat_logprobs, completion_logprobs, prompt_logprobs
from conch_llm_worker.bodies.shared_fields import (
    NEVER_OF_CHOICES,
    detail_fields,
    finish_fields,
    prompt_ids,
    usage_fields,
)
from conch_llm_worker.bodies.token_texts import made_text, prompt_text
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate, TokenEntry
from conch_llm_worker.text.vocabulary import Vocabulary

_NEVER_OF_MESSAGES = ("multimodal_content", "audio_content")
"""What clients of FastDeploy read of every message, and no model here makes."""


ShowLogprobs: TypeAlias = Callable[[Sequence[TokenEntry]], dict[str, Json]]
"""Returns the log probabilities of tokens as an API shows them."""


@dataclass(slots=True)
class ChoiceBody:
    """One choice as it is collected."""

    parts: MessageParts = field(default_factory=MessageParts)
    entries: list[TokenEntry] = field(default_factory=list)
    finish: ChoiceFinish | None = None
    ids: list[int] = field(default_factory=list)
    prompt: list[TokenEntry] = field(default_factory=list)
    _logprobs: GrowingLogprobs | None = None
    _logprob_sum: float = 0.0

    @property
    def mean_logprob(self) -> float:
        """Return how likely its tokens are on average."""
        return self._logprob_sum / len(self.ids) if self.ids else 0.0

    def add(self, update: ChoiceUpdate) -> None:
        """Append one update."""
        self.parts.add(update.events)
        self.parts.content.append(update.text)
        self.entries.extend(update.entries)
        self.finish = update.finish
        self.ids.extend(update.ids)
        self.prompt.extend(update.prompt)
        self._logprob_sum += update.logprob_sum

    def logprobs(self, show: ShowLogprobs) -> GrowingLogprobs:
        """Return the log probabilities of all tokens so far, and let go of what they were made of."""
        self._logprobs = self._logprobs or GrowingLogprobs(show)
        self._logprobs.add(self.entries)
        self.entries = []
        return self._logprobs


def complete_body(
    request: GenerateRequest, choices: Sequence[ChoiceBody], usage: Usage, vocabulary: Vocabulary
) -> bytes:
    """Return the body of a finished answer."""
    chat = request.api is Api.CHAT
    make = _chat_choice if chat else _completion_choice
    body: dict[str, Json] = {
        "id": request.response_id,
        "object": "chat.completion" if chat else "text_completion",
        "created": request.created,
        "model": request.model,
        "choices": [make(request, index, choice, vocabulary) for index, choice in enumerate(choices)],
        "usage": usage_fields(usage),
        **({} if request.fingerprint is None else {"system_fingerprint": request.fingerprint}),
        **detail_fields(request, choices[0].prompt, vocabulary),
    }
    return json_bytes(body)


def _chat_choice(request: GenerateRequest, index: int, choice: ChoiceBody, vocabulary: Vocabulary) -> dict[str, Json]:
    details = request.details
    shown = details is not None and details.token_ids
    ids: Json = [*choice.ids] if shown else None
    of_ids: dict[str, Json] = {
        "prompt_token_ids": prompt_ids(request, index) if shown else None,
        "completion_token_ids": ids,
        "prompt_tokens": prompt_text(request, index, vocabulary),
        "completion_tokens": made_text(request, choice.ids, vocabulary),
        **dict.fromkeys(_NEVER_OF_MESSAGES),
    }
    return {
        "index": index,
        "message": {**choice.parts.message(request.role), **of_ids},
        "logprobs": choice.logprobs(shown_logprobs(request, vocabulary)).json() if request.logprobs else None,
        **finish_fields(choice.finish, details),
        "token_ids": ids,
        "prompt_logprobs": _prompt_logprobs(request, choice, vocabulary),
        "weight_versions": None,
        **dict.fromkeys(NEVER_OF_CHOICES),
    }


def _completion_choice(
    request: GenerateRequest, index: int, choice: ChoiceBody, vocabulary: Vocabulary
) -> dict[str, Json]:
    details = request.details
    shown = details is not None and details.token_ids
    ids: Json = [*choice.ids] if shown else None
    return {
        "index": index,
        "text": "".join(choice.parts.content),
        "logprobs": choice.logprobs(shown_logprobs(request, vocabulary)).json() if request.logprobs else None,
        **finish_fields(choice.finish, details),
        "prompt_logprobs": _prompt_logprobs(request, choice, vocabulary),
        "prompt_token_ids": prompt_ids(request, index) if shown else None,
        "completion_token_ids": ids,
        "prompt_tokens": prompt_text(request, index, vocabulary),
        "completion_tokens": made_text(request, choice.ids, vocabulary),
        "token_ids": ids,
        "reasoning_content": choice.parts.thought,
        **dict.fromkeys(NEVER_OF_CHOICES),
    }


def shown_logprobs(request: GenerateRequest, vocabulary: Vocabulary) -> ShowLogprobs:
    """Return what makes the `logprobs` of a choice."""
    show = chat_logprobs if request.api is Api.CHAT else completion_logprobs
    as_ids = request.details is not None and request.details.tokens_as_ids
    return partial(show, vocabulary=vocabulary, as_ids=as_ids)


def _prompt_logprobs(request: GenerateRequest, choice: ChoiceBody, vocabulary: Vocabulary) -> Json:
    """Return what is shown of the prompt's tokens; null where it was not asked for."""
    details = request.details
    if details is None or details.prompt_logprobs is None:
        return None
    return prompt_logprobs(choice.prompt, vocabulary)
