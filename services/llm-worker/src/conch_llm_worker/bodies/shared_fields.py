"""Fields of JSON objects that complete bodies and frames share: usage, finish reasons, and the details of an answer."""

from collections.abc import Sequence

from conch_contracts.messages.generation import Api, Details, GenerateRequest, Usage
from conch_contracts.records import Profile
from conch_llm_worker.bodies.logprobs import Json, prompt_logprobs
from conch_llm_worker.generation.choice_update import ChoiceFinish, TokenEntry
from conch_llm_worker.text.vocabulary import Vocabulary


def usage_fields(usage: Usage) -> dict[str, Json]:
    """Return the usage object as clients see it."""
    shown: dict[str, Json] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    if usage.reasoning_tokens is not None:
        shown["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return shown


_ALWAYS_OF_CHATS = (
    "prompt_logprobs",
    "prompt_token_ids",
    "prompt_text",
    "ec_transfer_params",
    "metrics",
)
"""What vLLM's clients read of every chat, null where there is nothing (its `ChatCompletionResponse`)."""
_ALWAYS_OF_COMPLETIONS = ("service_tier", "ec_transfer_params", "metrics")
"""What they read of every text completion (its `CompletionResponse`)."""
NEVER_OF_CHOICES = ("routed_experts", "draft_logprobs", "speculate_metrics")
"""What clients of vLLM and FastDeploy read of every choice, and no engine here reports."""


def detail_fields(request: GenerateRequest, prompt: Sequence[TokenEntry], vocabulary: Vocabulary) -> dict[str, Json]:
    """Return what a complete answer has at its top level, given the entries of its first prompt."""
    details = request.details
    fields: dict[str, Json] = {"kv_transfer_params": None}
    fields |= dict.fromkeys(_ALWAYS_OF_CHATS if request.api is Api.CHAT else _ALWAYS_OF_COMPLETIONS)
    if details is None:
        return fields
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


def finish_fields(finish: ChoiceFinish | None, details: Details | None) -> dict[str, Json]:
    """Return why a choice ended, in the words of the deployment's profile."""
    if finish is None:
        return {"finish_reason": None, "stop_reason": None}
    stop_reason = finish.stop_reason
    if stop_reason is None and finish.reason == "stop" and details is not None and details.profile is Profile.DENGLIN:
        stop_reason = "stop"
    return {"finish_reason": finish.reason, "stop_reason": stop_reason}
