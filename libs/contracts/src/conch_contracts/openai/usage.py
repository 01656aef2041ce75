"""Tokens that a request used, as clients see them."""

from conch_contracts.openai.api_model import ApiModel


class CompletionDetails(ApiModel):
    """What the answer's tokens were used for."""

    reasoning_tokens: int


class CompletionUsage(ApiModel):
    """Tokens of the prompt and of all choices together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: CompletionDetails | None = None
