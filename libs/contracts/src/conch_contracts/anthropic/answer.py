"""Answers of the Messages API, whole and as events of a stream, and its errors."""

from typing import Annotated, Any, Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]


class WrittenText(ApiModel):
    """A piece of the answer's text."""

    type: Literal["text"]
    text: str


class AnswerThinking(ApiModel):
    """What the model thought before it answered, in the clear."""

    type: Literal["thinking"]
    thinking: str
    signature: str
    """Opaque; it says nothing that a client needs, and comes back unread."""


class AnswerToolUse(ApiModel):
    """A call that the client shall make."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


AnswerBlock = Annotated[WrittenText | AnswerThinking | AnswerToolUse, Field(discriminator="type")]


class ThinkingDetails(ApiModel):
    """How many of the answer's tokens are thinking."""

    thinking_tokens: int


class MessageUsage(ApiModel):
    """Tokens; those of the prompt are all in `input_tokens`, since no engine tells which it had cached."""

    input_tokens: int
    cache_creation_input_tokens: Literal[0]
    cache_read_input_tokens: Literal[0]
    output_tokens: int
    output_tokens_details: ThinkingDetails | None = None
    """Where thinking is looked for, at the end of an answer."""


class AnswerMessage(ApiModel):
    """One answer; in `message_start` without content, and with null for its end."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[AnswerBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage


class PromptTokens(ApiModel):
    """The length of a prompt."""

    input_tokens: int


ErrorType = Literal[
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "timeout_error",
    "overloaded_error",
]


class ErrorDetails(ApiModel):
    """What a client can act on."""

    error_code: Literal["thread_unsupported_request"]


class ErrorSaid(ApiModel):
    """What went wrong."""

    type: ErrorType
    message: str
    details: ErrorDetails | None = None
    """Where a request asks for a `thread`, which the SDK can do without."""


class ErrorAnswer(ApiModel):
    """Every error on these paths, as a status or as the last event of a stream."""

    type: Literal["error"]
    error: ErrorSaid
    request_id: str
