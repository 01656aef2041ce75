"""The Responses API: `POST /v1/responses`, its answer, and what is kept of both.

A request is an instruction, a conversation of items, and parameters that the gateway translates into those of a chat
completion. The answer is one object; a stream is a row of typed events that ends with the same object.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel, Metadata, Options
from conch_contracts.openai.chat import MAX_TEMPLATE_ARGUMENTS
from conch_contracts.openai.json_schema import ObjectSchema
from conch_contracts.openai.responses.items import InputItem, OutputItem, StoredItem
from conch_contracts.openai.sampling import INT32_MAX, MAX_ALTERNATIVES, MAX_USER_CHARS, DrawingFields, Switch
from conch_contracts.openai.structured_output import StructuredOutputs
from conch_contracts.openai.tools import MAX_TOOLS, ToolName

MAX_ITEMS = 4096
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ServiceTier = Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"]
Includable = Literal["message.output_text.logprobs", "reasoning.encrypted_content"]


class FunctionTool(ApiModel):
    """A function that the model may call."""

    type: Literal["function"]
    name: ToolName
    description: str | None = None
    parameters: ObjectSchema | None = None
    """A JSON Schema of the arguments."""
    strict: bool | None = None
    """Arguments of any call obey the schema; those of a call that `tool_choice` demands do so in either case."""


class ChosenFunction(ApiModel):
    """The one function that must be called."""

    type: Literal["function"]
    name: ToolName


class AllowedTools(ApiModel):
    """The functions among `tools` that may be called in this turn."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[ChosenFunction], Field(min_length=1, max_length=MAX_TOOLS)]


class PlainFormat(Options):
    """Any text, or any JSON object."""

    type: Literal["text", "json_object"]


class SchemaFormat(Options):
    """JSON that follows a schema."""

    type: Literal["json_schema"]
    name: ToolName
    schema_: dict[str, object] = Field(alias="schema")
    description: str | None = None
    strict: bool | None = None


class TextOptions(Options):
    """What the answer's text looks like."""

    format: Annotated[PlainFormat | SchemaFormat, Field(discriminator="type")] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    """Accepted without effect."""


class ReasoningOptions(Options):
    """How much a model thinks before it answers."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    """Only `auto`: the thoughts are given in the clear, and nothing summarises them."""


class ResponseStreamOptions(Options):
    """What a stream carries beside its events."""

    include_obfuscation: bool | None = None
    """Only false: no padding is sent."""


class ResponsesRequest(DrawingFields):
    """What a client may ask of `POST /v1/responses`."""

    model: Annotated[str, Field(max_length=10_240)] | None = None
    """A served name; absent, empty or `default` asks for the default model."""
    input: str | Annotated[list[InputItem], Field(min_length=1, max_length=MAX_ITEMS, fail_fast=True)]
    """A text, which is a message of the user, or items."""
    instructions: str | None = None
    """A system message before the conversation; not kept for the next turn."""
    previous_response_id: Annotated[str, Field(max_length=128)] | None = None
    """The answer that this conversation goes on from; its whole conversation comes before `input`."""
    store: bool | None = None
    """Whether the answer is kept for `previous_response_id` and for retrieval; true when absent."""
    stream: Switch | None = None
    """Send the answer as typed events."""
    stream_options: ResponseStreamOptions | None = None
    """Only with `stream`."""
    max_output_tokens: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """Without it the rest of the context."""
    max_tool_calls: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """Bounds the calls of tools that the server runs; there are none."""
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_ALTERNATIVES)
    """Alternatives to report for each token."""
    include: Annotated[list[Includable], Field(max_length=16)] | None = None
    """`message.output_text.logprobs` shows log probabilities. Reasoning comes in the clear, so nothing is encrypted."""
    text: TextOptions | None = None
    """The form of the answer."""
    reasoning: ReasoningOptions | None = None
    """How much the model thinks."""
    tools: Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS)] | None = None
    """Functions that the model may call."""
    tool_choice: (
        Literal["none", "auto", "required"]
        | Annotated[ChosenFunction | AllowedTools, Field(discriminator="type")]
        | None
    ) = None
    """Whether it may call them, must, or must call a certain one; `auto` when there are tools."""
    parallel_tool_calls: bool | None = None
    """False: at most one call comes back."""
    structured_outputs: StructuredOutputs | None = None
    """vLLM's way of saying what the answer must look like; not with a `text.format`."""
    chat_template_kwargs: Annotated[dict[str, Any], Field(max_length=MAX_TEMPLATE_ARGUMENTS)] | None = None
    """Variables for the chat template, such as `enable_thinking`."""
    truncation: Literal["auto", "disabled"] | None = None
    """Only `disabled`: a conversation that is too long is refused."""
    background: bool | None = None
    """Give the answer as `queued` at once, and go on with it while the client asks for it again."""
    metadata: Metadata | None = None
    """Comes back with the answer."""
    user: Annotated[str, Field(max_length=MAX_USER_CHARS)] | None = None
    """Whom the client asks for: a note for the access log."""
    safety_identifier: Annotated[str, Field(max_length=64)] | None = None
    """Comes back with the answer."""
    prompt_cache_key: Annotated[str, Field(max_length=MAX_USER_CHARS)] | None = None
    """Comes back with the answer."""
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    """Comes back with the answer."""
    service_tier: ServiceTier | None = None
    """Accepted; there is one tier."""


class InputTokensDetails(ApiModel):
    """Of the tokens of the prompt."""

    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(ApiModel):
    """Of the tokens of the answer."""

    reasoning_tokens: int


class ResponseUsage(ApiModel):
    """Tokens of the prompt and of the answer."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseFailure(ApiModel):
    """Why an answer broke."""

    code: Literal["server_error", "rate_limit_exceeded"]
    message: str


class IncompleteDetails(ApiModel):
    """Why an answer ended early."""

    reason: Literal["max_output_tokens", "content_filter"]


class Response(ApiModel):
    """An answer, and what it says of its request."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["completed", "incomplete", "failed", "in_progress", "queued", "cancelled"]
    model: str
    output: list[OutputItem]
    usage: ResponseUsage | None = None
    """Of the first events what is known then, the prompt's tokens; so of an answer in the background that has not
    ended, has failed or was cancelled."""
    error: ResponseFailure | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    metadata: Metadata
    previous_response_id: str | None
    store: bool
    """Whether the answer was kept; in the events before the last one, whether it is to be."""
    temperature: float
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    top_logprobs: int
    max_output_tokens: int | None
    max_tool_calls: int | None
    text: TextOptions
    reasoning: ReasoningOptions
    tools: list[FunctionTool]
    tool_choice: Literal["none", "auto", "required"] | ChosenFunction | AllowedTools
    parallel_tool_calls: bool
    truncation: Literal["disabled"]
    background: bool
    service_tier: Literal["default"]
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    safety_identifier: str | None
    user: str | None = None


class StoredItemList(ApiModel):
    """A page of the items that the model was given."""

    object: Literal["list"]
    data: list[StoredItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedResponse(ApiModel):
    """What is left of a response that was deleted."""

    id: str
    object: Literal["response.deleted"]
    deleted: Literal[True]
