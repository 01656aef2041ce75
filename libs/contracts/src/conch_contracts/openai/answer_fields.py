"""What answers of chats and of text completions have in common."""

from conch_contracts.openai.api_model import ApiModel


class PromptToken(ApiModel):
    """One candidate at a position of the prompt."""

    logprob: float
    rank: int | None = None
    """1 for the likeliest; None where the alternatives asked for do not reach that far."""
    decoded_token: str


PromptLogprobs = list[dict[str, PromptToken] | None]
"""By position, and there by token id; None for the first one."""


class Origin(ApiModel):
    """What an answer tells about the server."""

    system_fingerprint: str | None = None
    """Changes with spec.source, the model's small files, its template, the kind of runtime and spec.generation; not
    with weights behind the same source, nor with the engine's image."""
    service_tier: str | None = None
    """Only in answers to requests that name one."""


class CompletionDetails(ApiModel):
    """What the answer's tokens were used for."""

    reasoning_tokens: int


class PromptDetails(ApiModel):
    """Of the tokens of the prompt."""

    cached_tokens: int
    """Always 0: engines do not say what they had in their caches."""


class CompletionUsage(ApiModel):
    """Tokens of the prompt and of all choices together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails | None = None
