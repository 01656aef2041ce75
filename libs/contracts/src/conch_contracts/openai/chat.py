"""Chat completions: `POST /v1/chat/completions`, complete or as `chat.completion.chunk` frames."""

from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.openai.sampling import INT32_MAX, MAX_ALTERNATIVES, ApiModel, SamplingFields
from conch_contracts.openai.usage import CompletionUsage

MAX_MESSAGES = 4096
MAX_PARTS = 256


class TextPart(ApiModel):
    """A piece of text in a message's content."""

    type: Literal["text"]
    text: str


class ChatMessage(ApiModel):
    """One turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[TextPart], Field(min_length=1, max_length=MAX_PARTS, fail_fast=True)]
    name: Annotated[str, Field(max_length=MAX_PARTS)] | None = None
    reasoning_content: str | None = None


class ChatCompletionRequest(SamplingFields):
    """What a client may ask of `POST /v1/chat/completions`."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)] | None = None
    """Required unless `prompt_token_ids` is given."""
    max_tokens: int | None = Field(default=None, ge=1, le=INT32_MAX)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """Wins over `max_tokens`; without either, the rest of the context."""
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_ALTERNATIVES)
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None


class TopLogprob(ApiModel):
    """One alternative at a position."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    """The chosen token at a position, and its alternatives."""

    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(ApiModel):
    """Log probabilities of a choice's tokens."""

    content: list[TokenLogprob] | None
    refusal: list[TokenLogprob] | None = None


class AssistantMessage(ApiModel):
    """The answer of one choice."""

    role: str
    content: str | None
    refusal: str | None


class ChatChoice(ApiModel):
    """One of the `n` answers."""

    index: int
    message: AssistantMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    stop_reason: str | int | None = None


class ChatCompletion(ApiModel):
    """The complete answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: CompletionUsage


class Delta(ApiModel):
    """What one frame adds to a choice."""

    role: str | None = None
    content: str | None = None


class ChatChunkChoice(ApiModel):
    """One choice's part of a frame."""

    index: int
    delta: Delta
    logprobs: ChoiceLogprobs | None = None
    finish_reason: Literal["stop", "length"] | None
    stop_reason: str | int | None = None


class ChatCompletionChunk(ApiModel):
    """One frame of a streamed answer."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: CompletionUsage | None = None
