"""The events of a streamed response, for the OpenAPI document; workers write them as bytes."""

from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.chat import TokenLogprob
from conch_contracts.openai.responses.items import AnswerText, OutputItem, ReasoningText
from conch_contracts.openai.responses.response import Response


class NumberedEvent(ApiModel):
    """What every event carries."""

    sequence_number: int
    """Counts from 0 within a stream."""


class ResponseEvent(NumberedEvent):
    """The response as it is now: begun, or ended in one of three ways. The last three are the end of a stream."""

    type: Literal[
        "response.created",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]
    response: Response


class ItemEvent(NumberedEvent):
    """An item of the output begins or is complete."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: OutputItem


class PartEvent(NumberedEvent):
    """The text of an item begins or is complete."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    item_id: str
    output_index: int
    content_index: int
    part: Annotated[AnswerText | ReasoningText, Field(discriminator="type")]


class TextDelta(NumberedEvent):
    """A piece of an answer's text."""

    type: Literal["response.output_text.delta"]
    item_id: str
    output_index: int
    content_index: int
    delta: str
    logprobs: list[TokenLogprob]


class TextDone(NumberedEvent):
    """An answer's whole text."""

    type: Literal["response.output_text.done"]
    item_id: str
    output_index: int
    content_index: int
    text: str
    logprobs: list[TokenLogprob]


class ReasoningDelta(NumberedEvent):
    """A piece of what the model thinks."""

    type: Literal["response.reasoning_text.delta"]
    item_id: str
    output_index: int
    content_index: int
    delta: str


class ReasoningDone(NumberedEvent):
    """All that the model thought."""

    type: Literal["response.reasoning_text.done"]
    item_id: str
    output_index: int
    content_index: int
    text: str


class ArgumentsDelta(NumberedEvent):
    """A piece of the arguments of a call."""

    type: Literal["response.function_call_arguments.delta"]
    item_id: str
    output_index: int
    delta: str


class ArgumentsDone(NumberedEvent):
    """The whole arguments of a call."""

    type: Literal["response.function_call_arguments.done"]
    item_id: str
    output_index: int
    name: str
    arguments: str


class StreamError(NumberedEvent):
    """The stream ends here, because something behind the gateway was lost."""

    type: Literal["error"]
    code: str | None
    message: str
    param: str | None


ResponseStreamEvent = Annotated[
    ResponseEvent
    | ItemEvent
    | PartEvent
    | TextDelta
    | TextDone
    | ReasoningDelta
    | ReasoningDone
    | ArgumentsDelta
    | ArgumentsDone
    | StreamError,
    Field(discriminator="type"),
]
"""One event of a stream."""
