"""The events of a streamed message, in order: one start, each block whole before the next, and the message's end.

`ping` and `error` may come at any time; behind `error` the stream ends.
"""

from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.anthropic.answer import AnswerBlock, AnswerMessage, ErrorAnswer, MessageUsage, StopReason
from conch_contracts.openai.api_model import ApiModel


class MessageStart(ApiModel):
    """The message before its first block."""

    type: Literal["message_start"]
    message: AnswerMessage


class BlockStart(ApiModel):
    """A block begins, empty."""

    type: Literal["content_block_start"]
    index: int
    content_block: AnswerBlock


class WrittenTextDelta(ApiModel):
    """More of a text."""

    type: Literal["text_delta"]
    text: str


class ThinkingDelta(ApiModel):
    """More of the thinking."""

    type: Literal["thinking_delta"]
    thinking: str


class SignatureDelta(ApiModel):
    """The end of the thinking."""

    type: Literal["signature_delta"]
    signature: str


class InputDelta(ApiModel):
    """What a tool is called with, whole."""

    type: Literal["input_json_delta"]
    partial_json: str


class BlockDelta(ApiModel):
    """More of the open block."""

    type: Literal["content_block_delta"]
    index: int
    delta: Annotated[WrittenTextDelta | ThinkingDelta | SignatureDelta | InputDelta, Field(discriminator="type")]


class BlockStop(ApiModel):
    """The open block is complete."""

    type: Literal["content_block_stop"]
    index: int


class MessageStopReason(ApiModel):
    """Why the answer ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(ApiModel):
    """The end of the answer, and all that it used."""

    type: Literal["message_delta"]
    delta: MessageStopReason
    usage: MessageUsage


class MessageStop(ApiModel):
    """The stream is complete."""

    type: Literal["message_stop"]


class Ping(ApiModel):
    """A sign of life."""

    type: Literal["ping"]


MessageStreamEvent = Annotated[
    MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | Ping | ErrorAnswer,
    Field(discriminator="type"),
]
