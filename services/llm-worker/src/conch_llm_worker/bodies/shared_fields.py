"""What an answer shows beside its text when a request asks for it, as fields of JSON objects; pure.

`bodies` puts them into complete answers, `detailed_frames` into streams. A plain request has no details, and nothing
here is called for it.
"""

from collections.abc import Sequence

from conch_contracts.messages.generation import Api, Details, GenerateRequest, Usage
from conch_contracts.records import Profile
from conch_llm_worker.bodies.logprobs import Json, finite
from conch_llm_worker.generation.choice_update import ChoiceFinish, TokenEntry
from conch_llm_worker.text.vocabulary import Vocabulary


def usage_fields(usage: Usage) -> dict[str, Json]:
    """Return the usage object as clients see it."""
    shown: dict[str, Json] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    if usage.reasoning_tokens is not None:
        shown["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return shown


def body_fields(request: GenerateRequest, prompt: Sequence[TokenEntry], vocabulary: Vocabulary) -> dict[str, Json]:
    """Return what a complete answer has at its top level, given the entries of its first prompt."""
    details = request.details
    if details is None:
        return {}
    fields: dict[str, Json] = {}
    if details.service_tier is not None:
        fields["service_tier"] = details.service_tier
    if details.metadata is not None:
        fields["metadata"] = dict(details.metadata)
    if details.kv_transfer is not None:
        fields["kv_transfer_params"] = details.kv_transfer
    if request.api is Api.CHAT and details.token_ids:
        fields["prompt_token_ids"] = list(request.prompts[0].ids)
    if request.api is Api.CHAT and details.prompt_logprobs is not None:
        fields["prompt_logprobs"] = prompt_logprobs(prompt, vocabulary)
    return fields


def prompt_ids(request: GenerateRequest, index: int) -> list[Json]:
    """Return the ids of the prompt that a shown choice belongs to."""
    return list(request.prompts[index // request.n].ids)


def prompt_logprobs(entries: Sequence[TokenEntry], vocabulary: Vocabulary) -> list[Json]:
    """Return for each token of a prompt its log probability and those of its alternatives, by id."""
    return [_position(entry, vocabulary) for entry in entries]


def ending(finish: ChoiceFinish | None, details: Details | None) -> dict[str, Json]:
    """Return why a choice ended, in the words of the deployment's profile."""
    if finish is None:
        return {"finish_reason": None, "stop_reason": None}
    stop_reason = finish.stop_reason
    if stop_reason is None and finish.reason == "stop" and details is not None and details.profile is Profile.DENGLIN:
        stop_reason = "stop"
    return {"finish_reason": finish.reason, "stop_reason": stop_reason}


def _position(entry: TokenEntry, vocabulary: Vocabulary) -> Json:
    if entry.logprob is None:
        return None
    found: dict[str, Json] = {}
    for rank, (token_id, value) in enumerate(zip(entry.top_ids, entry.top, strict=True), start=1):
        found[str(token_id)] = _candidate(token_id, value, rank, vocabulary)
    found.setdefault(str(entry.token_id), _candidate(entry.token_id, entry.logprob, entry.rank, vocabulary))
    return found


def _candidate(token_id: int, logprob: float, rank: int | None, vocabulary: Vocabulary) -> Json:
    text = vocabulary.token_bytes(token_id).decode("utf-8", "replace")
    return {"logprob": finite(logprob), "rank": rank, "decoded_token": text}
