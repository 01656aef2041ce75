"""The complete JSON body of an answer that is not streamed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from conch_contracts.generation import Api, GenerateRequest, Usage
from conch_llm_worker.generation import Finish, Step, TokenEntry
from conch_llm_worker.logprobs import Json, chat_logprobs, completion_logprobs
from conch_llm_worker.messages import Parts
from conch_llm_worker.vocabulary import Vocabulary


@dataclass(slots=True)
class Choice:
    """One choice as it is collected."""

    parts: Parts = field(default_factory=Parts)
    entries: list[TokenEntry] = field(default_factory=list)
    finish: Finish | None = None

    def add(self, step: Step) -> None:
        """Append what one step brought."""
        self.parts.add(step.events)
        self.parts.content.append(step.text)
        self.entries.extend(step.entries)
        self.finish = step.finish


def complete_body(request: GenerateRequest, choices: Sequence[Choice], usage: Usage, vocabulary: Vocabulary) -> bytes:
    """Return the body of a finished answer."""
    chat = request.api is Api.CHAT
    make = _chat_choice if chat else _completion_choice
    body: dict[str, Json] = {
        "id": request.response_id,
        "object": "chat.completion" if chat else "text_completion",
        "created": request.created,
        "model": request.model,
        "choices": [make(request, index, choice, vocabulary) for index, choice in enumerate(choices)],
        "usage": _usage(usage),
    }
    return orjson.dumps(body)


def _usage(usage: Usage) -> Json:
    shown: dict[str, Json] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    if usage.reasoning_tokens is not None:
        shown["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return shown


def _chat_choice(request: GenerateRequest, index: int, choice: Choice, vocabulary: Vocabulary) -> dict[str, Json]:
    return {
        "index": index,
        "message": choice.parts.message(request.role),
        "logprobs": chat_logprobs(choice.entries, vocabulary) if request.logprobs else None,
        **_ending(choice),
    }


def _completion_choice(request: GenerateRequest, index: int, choice: Choice, vocabulary: Vocabulary) -> dict[str, Json]:
    return {
        "index": index,
        "text": "".join(choice.parts.content),
        "logprobs": completion_logprobs(choice.entries, vocabulary) if request.logprobs else None,
        **_ending(choice),
    }


def _ending(choice: Choice) -> dict[str, Json]:
    if choice.finish is None:
        return {"finish_reason": None, "stop_reason": None}
    return {"finish_reason": choice.finish.reason, "stop_reason": choice.finish.stop_reason}
