"""What a client may ask of `POST /v1/messages` and `POST /v1/messages/count_tokens`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from conch_contracts.anthropic.content_blocks import MAX_BLOCKS, Block, TextBlock
from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.chat import MAX_MESSAGES
from conch_contracts.openai.json_schema import ObjectSchema
from conch_contracts.openai.sampling import INT32_MAX, MAX_STOP_STRINGS, MAX_USER_CHARS, MAX_WORD_CHARS
from conch_contracts.openai.tools import MAX_DESCRIPTION_CHARS, MAX_TOOLS, ToolName

MIN_THINKING_TOKENS = 1024
"""Of https://platform.claude.com/docs/en/build-with-claude/extended-thinking."""

Blocks = Annotated[list[Block], Field(max_length=MAX_BLOCKS, fail_fast=True)]


class Turn(ApiModel):
    """One turn of the conversation; neighbours with one role are one turn."""

    role: Literal["user", "assistant", "system"]
    content: str | Blocks


class CustomTool(ApiModel):
    """A tool that the client runs."""

    type: Literal["custom"] | None = None
    name: ToolName
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARS)] | None = None
    input_schema: ObjectSchema
    """A JSON Schema of an object: what the tool takes."""
    strict: bool | None = None
    """Every call obeys the schema."""


class FreeChoice(ApiModel):
    """The model may call tools (`auto`), must (`any`), or must not (`none`)."""

    type: Literal["auto", "any", "none"]
    disable_parallel_tool_use: bool | None = None
    """At most one call comes back."""


class ToolChoice(ApiModel):
    """The demand for a call of one tool."""

    type: Literal["tool"]
    name: ToolName
    disable_parallel_tool_use: bool | None = None
    """Without effect: a certain tool is called once."""


Display = Literal["summarized", "omitted", "updates"]
"""How thinking is shown, https://platform.claude.com/docs/en/build-with-claude/thinking#controlling-thinking-display.

`omitted`: its blocks come without their text. `updates` is the same here, as models write no notes on their progress.
There are no summaries: else it is shown as it is.
"""


class ThinkingBudget(ApiModel):
    """Thinking, within a limit."""

    type: Literal["enabled"]
    budget_tokens: int = Field(ge=MIN_THINKING_TOKENS, le=INT32_MAX)
    """The most tokens that the model may think, where its engine can be held to that; below `max_tokens`."""
    display: Display | None = None
    """`omitted` or `updates`: the blocks come without their text. Else it is shown as it is, never summarised."""


class FreeThinking(ApiModel):
    """Thinking as the model likes."""

    type: Literal["adaptive", "between_tools"]
    display: Display | None = None


class NoThinking(ApiModel):
    """No thinking."""

    type: Literal["disabled"]


class AnswerFormat(ApiModel):
    """An answer that is JSON of a certain form."""

    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class OutputConfig(ApiModel):
    """How much the model does for its answer, and what that looks like."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: AnswerFormat | None = None


class RequestNotes(ApiModel):
    """What the client says about its request."""

    user_id: Annotated[str, Field(max_length=MAX_USER_CHARS)] | None = None
    """Whom the client asks for: a note for the access log."""


class PromptFields(ApiModel):
    """What the model reads before it answers: all that is counted."""

    model: Annotated[str, Field(min_length=1, max_length=10_240)]
    """A served name."""
    messages: Annotated[list[Turn], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]
    """The conversation; the answer goes on in the last turn, if that is the assistant's."""
    system: str | Annotated[list[TextBlock], Field(max_length=MAX_BLOCKS, fail_fast=True)] | None = None
    """What the model is told before the conversation."""
    tools: Annotated[list[CustomTool], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None
    """What the model may call; the client runs them all."""
    tool_choice: Annotated[FreeChoice | ToolChoice, Field(discriminator="type")] | None = None
    """Whether it may call them, must, must not, or must call a certain one; `auto` when there are tools."""
    thinking: Annotated[ThinkingBudget | FreeThinking | NoThinking, Field(discriminator="type")] | None = None
    """None: as the model does by itself."""
    output_config: OutputConfig | None = None
    """How much the model does for its answer, and the schema that it obeys."""


class MessagesRequest(PromptFields):
    """A request for an answer."""

    max_tokens: int = Field(ge=1, le=INT32_MAX)
    """The most tokens of the answer; less where the context leaves no more."""
    stop_sequences: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=MAX_WORD_CHARS)]],
            Field(max_length=MAX_STOP_STRINGS, fail_fast=True),
        ]
        | None
    ) = None
    """The answer ends before the first of these texts."""
    stream: bool | None = None
    """Send the answer piece by piece, as server-sent events."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """0 is greedy."""
    top_p: float | None = Field(default=None, ge=0, le=1)
    """Draw among the likeliest tokens that have this much of the probability together."""
    top_k: int | None = Field(default=None, ge=0, le=INT32_MAX)
    """Draw among so many of the likeliest tokens; 0 switches it off."""
    metadata: RequestNotes | None = None
    """What the client says about its request."""


class CountTokensRequest(PromptFields):
    """A request for the length of a prompt."""
