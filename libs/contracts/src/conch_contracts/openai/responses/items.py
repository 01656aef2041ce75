"""The items that requests and answers of the Responses API consist of: messages, function calls, and reasoning.

What a client sends is `InputItem`; what it gets back, and what is kept, is `OutputItem` and `StoredItem`. An item that
came out of one answer may go into the next request as it is.
"""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.chat import MAX_PARTS, PictureDetail, TokenLogprob
from conch_contracts.openai.tools import Arguments

ItemStatus = Literal["in_progress", "completed", "incomplete"]
ItemId = Annotated[str, Field(max_length=128)]


class InputText(ApiModel):
    """A piece of text that a client wrote."""

    type: Literal["input_text"]
    text: str


class InputImage(ApiModel):
    """A picture."""

    type: Literal["input_image"]
    image_url: str
    """The picture itself, as `data:image/png;base64,…`, or its http(s) URL where the model allows that."""
    detail: PictureDetail | None = None


class OutputText(ApiModel):
    """A piece of text that a model wrote."""

    type: Literal["output_text"]
    text: str


class Refusal(ApiModel):
    """What a model said instead of an answer."""

    type: Literal["refusal"]
    refusal: str


class ReasoningText(ApiModel):
    """What a model thought before it answered."""

    type: Literal["reasoning_text"]
    text: str


class SummaryText(ApiModel):
    """A summary of what a model thought."""

    type: Literal["summary_text"]
    text: str


MessagePart = Annotated[InputText | InputImage | OutputText | Refusal, Field(discriminator="type")]
OutputPart = Annotated[InputText | InputImage, Field(discriminator="type")]
"""What a function gave back."""
MessageParts = Annotated[list[MessagePart], Field(max_length=MAX_PARTS, fail_fast=True)]


class InputMessage(ApiModel):
    """One turn of the conversation; the only item that may leave out its type."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | MessageParts
    id: ItemId | None = None
    status: ItemStatus | None = None


class CallItem(ApiModel):
    """A model's call of a function."""

    type: Literal["function_call"]
    call_id: ItemId
    name: Annotated[str, Field(max_length=128)]
    arguments: Arguments
    """JSON, as the model wrote it; in a request an object is taken too."""
    id: ItemId | None = None
    status: ItemStatus | None = None


class CallOutputItem(ApiModel):
    """What a function gave back; `call_id` says which call it answers."""

    type: Literal["function_call_output"]
    call_id: ItemId
    output: str | Annotated[list[OutputPart], Field(max_length=MAX_PARTS, fail_fast=True)]
    id: ItemId | None = None
    status: ItemStatus | None = None


class ReasoningItem(ApiModel):
    """What a model thought; the templates of some models show it to the model again."""

    type: Literal["reasoning"]
    summary: Annotated[list[SummaryText], Field(max_length=MAX_PARTS)]
    content: Annotated[list[ReasoningText], Field(max_length=MAX_PARTS)] | None = None
    id: ItemId | None = None
    status: ItemStatus | None = None


def item_type(item: object) -> str:
    """Return the type of an item that may leave it out; of what is no item, the type of none."""
    if isinstance(item, dict):
        found = item.get("type", "message")
    else:
        found = getattr(item, "type", "message") if isinstance(item, ApiModel) else ""
    return found if isinstance(found, str) else ""


InputItem = Annotated[
    Annotated[InputMessage, Tag("message")]
    | Annotated[CallItem, Tag("function_call")]
    | Annotated[CallOutputItem, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(item_type),
]


class AnswerText(OutputText):
    """A piece of an answer's text."""

    annotations: list[dict[str, object]]
    """Always empty: nothing here cites sources."""
    logprobs: list[TokenLogprob]
    """Empty unless they were asked for."""


class OutputMessage(ApiModel):
    """The text of an answer."""

    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: ItemStatus
    content: list[AnswerText]


class OutputCall(CallItem):
    """A call that the client shall make."""

    id: str
    status: ItemStatus


class OutputReasoning(ReasoningItem):
    """What the model thought before it answered, in the clear; there is no summary of it."""

    id: str
    status: ItemStatus


OutputItem = Annotated[OutputMessage | OutputCall | OutputReasoning, Field(discriminator="type")]


class StoredImage(InputImage):
    """A picture as it was given to the model."""

    detail: PictureDetail
    file_id: None
    """Always null: no files are kept here."""


class StoredMessage(ApiModel):
    """A message as it was given to the model."""

    type: Literal["message"]
    id: str
    role: Literal["user", "assistant", "system", "developer"]
    status: ItemStatus
    content: list[InputText | StoredImage | AnswerText | Refusal]


class StoredCallOutput(ApiModel):
    """What a function gave back, as it was given to the model."""

    type: Literal["function_call_output"]
    call_id: str
    output: str | list[InputText | StoredImage]
    id: str
    status: ItemStatus


StoredItem = Annotated[StoredMessage | OutputCall | StoredCallOutput | OutputReasoning, Field(discriminator="type")]
