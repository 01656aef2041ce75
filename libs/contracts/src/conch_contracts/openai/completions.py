"""Text completions: `POST /v1/completions`, complete or streamed; both have the object `text_completion`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from conch_contracts.openai.answer_fields import CompletionUsage, Origin, PromptLogprobs
from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.sampling import INT32_MAX, MAX_ALTERNATIVES, SamplingFields, TokenIds

MAX_PROMPTS = 256

Text = Annotated[str, Field(min_length=1)]


class CompletionRequest(SamplingFields):
    """What a client may ask of `POST /v1/completions`."""

    prompt: (
        Text
        | Annotated[list[Text], Field(min_length=1, max_length=MAX_PROMPTS, fail_fast=True)]
        | TokenIds
        | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_PROMPTS, fail_fast=True)]
        | None
    ) = None
    """A text, texts, token ids, or several lists of them; required unless `prompt_token_ids` is given,
    beside which it may be empty."""
    max_tokens: int | None = Field(default=None, ge=0, le=INT32_MAX)
    """The most tokens of an answer: 16 when absent; 0 only together with `echo`."""
    echo: bool | None = None
    """Begin the answer with the prompt."""
    suffix: str | None = None
    """What comes behind the text to fill in; for models with a fill-in template."""
    logprobs: int | None = Field(default=None, ge=0, le=MAX_ALTERNATIVES)
    """Report the log probability of each token, and so many alternatives."""


class CompletionLogprobs(ApiModel):
    """Log probabilities as four lists of one length."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class CompletionChoice(ApiModel):
    """One answer: `index` is prompt times `n` plus the number of the choice."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    stop_reason: str | int | None = None
    prompt_logprobs: PromptLogprobs | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    prompt_tokens: str | None = None
    """The prompt's text, where `return_token_ids` asks for it in the profile `fastdeploy`."""
    completion_tokens: str | None = None
    """What the model wrote, special tokens included; there like `prompt_tokens`."""
    token_ids: list[int] | None = None
    reasoning_content: str | None = None
    """The thinking of a model that marks it, in the profile `fastdeploy`, where streams have an empty text instead of
    null; else null: the text is all that the model wrote."""
    routed_experts: None = None
    """Always null, as clients of vLLM read it."""
    draft_logprobs: None = None
    """Always null, as clients of FastDeploy read it."""
    speculate_metrics: None = None
    """Always null, as clients of FastDeploy read it."""
    tool_calls: None = None
    """Null, in streams of the profile `fastdeploy`: nothing is called."""
    arrival_time: float | None = None
    """Seconds since the answer was begun, in streams of the profile `fastdeploy`."""


class Completion(Origin):
    """The complete answer, or one frame of a streamed one."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage | None = None
    metadata: dict[str, str | int | bool] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: None = None
    """Always null, as clients of vLLM read it."""
    metrics: None = None
    """Always null, as clients of vLLM read it."""
