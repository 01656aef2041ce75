"""The complete JSON body of an answer that is not streamed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from conch_contracts.messages.generation import Api, GenerateRequest, Usage
from conch_llm_worker.bodies.chat_message import MessageParts
from conch_llm_worker.bodies.logprobs import Json, chat_logprobs, completion_logprobs, prompt_logprobs
from conch_llm_worker.bodies.shared_fields import detail_fields, finish_fields, prompt_ids, usage_fields
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate, TokenEntry
from conch_llm_worker.text.vocabulary import Vocabulary


@dataclass(slots=True)
class ChoiceBody:
    """One choice as it is collected."""

    parts: MessageParts = field(default_factory=MessageParts)
    entries: list[TokenEntry] = field(default_factory=list)
    finish: ChoiceFinish | None = None
    ids: list[int] = field(default_factory=list)
    prompt: list[TokenEntry] = field(default_factory=list)
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
    return orjson.dumps(body)


def _chat_choice(request: GenerateRequest, index: int, choice: ChoiceBody, vocabulary: Vocabulary) -> dict[str, Json]:
    details = request.details
    shown: dict[str, Json] = {}
    fields: dict[str, Json] = {}
    if details is not None and details.token_ids:
        shown = {"prompt_token_ids": prompt_ids(request, index), "completion_token_ids": [*choice.ids]}
        fields["token_ids"] = [*choice.ids]
    as_ids = details is not None and details.tokens_as_ids
    return {
        "index": index,
        "message": {**choice.parts.message(request.role), **shown},
        "logprobs": chat_logprobs(choice.entries, vocabulary, as_ids=as_ids) if request.logprobs else None,
        **finish_fields(choice.finish, details),
        **fields,
    }


def _completion_choice(
    request: GenerateRequest, index: int, choice: ChoiceBody, vocabulary: Vocabulary
) -> dict[str, Json]:
    details = request.details
    fields: dict[str, Json] = {}
    if details is not None and details.token_ids:
        fields["prompt_token_ids"] = prompt_ids(request, index)
        fields |= {"completion_token_ids": [*choice.ids], "token_ids": [*choice.ids]}
    if details is not None and details.prompt_logprobs is not None:
        fields["prompt_logprobs"] = prompt_logprobs(choice.prompt, vocabulary)
    as_ids = details is not None and details.tokens_as_ids
    return {
        "index": index,
        "text": "".join(choice.parts.content),
        "logprobs": completion_logprobs(choice.entries, vocabulary, as_ids=as_ids) if request.logprobs else None,
        **finish_fields(choice.finish, details),
        **fields,
    }
