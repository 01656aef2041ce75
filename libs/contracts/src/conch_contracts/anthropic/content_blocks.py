"""The blocks that turns of a conversation consist of, as a client sends them.

`cache_control`, `citations` and other notes on a block are left out: nothing here is cached by request or cited.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.tools import MAX_ID_CHARS

MAX_BLOCKS = 4096
"""In one turn; an agent's turn may hold the results of many calls."""

BlockId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]


class TextBlock(ApiModel):
    """A piece of text."""

    type: Literal["text"]
    text: str


def _media_type(given: object) -> object:
    """Return a media type under its registered name; as in `data:` URLs, case says nothing and `jpg` is `jpeg`."""
    if not isinstance(given, str):
        return given
    lower = given.lower()
    return "image/jpeg" if lower == "image/jpg" else lower


class Base64Source(ApiModel):
    """A picture's file."""

    type: Literal["base64"]
    media_type: Annotated[Literal["image/jpeg", "image/png", "image/gif", "image/webp"], BeforeValidator(_media_type)]
    """`image/jpg` and upper case are taken too. Which of the four it is, the file itself says."""
    data: str


class UrlSource(ApiModel):
    """Where a picture is: http(s), where the model allows that."""

    type: Literal["url"]
    url: str


class ImageBlock(ApiModel):
    """A picture."""

    type: Literal["image"]
    source: Annotated[Base64Source | UrlSource, Field(discriminator="type")]


class PlainTextSource(ApiModel):
    """A document's text."""

    type: Literal["text"]
    data: str


class ContentSource(ApiModel):
    """A document's text, in one piece or several."""

    type: Literal["content"]
    content: str | Annotated[list[TextBlock], Field(max_length=MAX_BLOCKS, fail_fast=True)]


class DocumentBlock(ApiModel):
    """A document that consists of text."""

    type: Literal["document"]
    source: Annotated[PlainTextSource | ContentSource, Field(discriminator="type")]
    title: str | None = None
    context: str | None = None
    """What the model shall know of the document beside its text."""


class SearchResultBlock(ApiModel):
    """What a search has found."""

    type: Literal["search_result"]
    source: str
    title: str
    content: Annotated[list[TextBlock], Field(max_length=MAX_BLOCKS, fail_fast=True)]


ReadableBlock = Annotated[TextBlock | ImageBlock | DocumentBlock | SearchResultBlock, Field(discriminator="type")]
"""What the model reads or sees."""


class ToolUseBlock(ApiModel):
    """A call of a tool, which the assistant made."""

    type: Literal["tool_use"]
    id: BlockId
    name: BlockId
    """As the model wrote it, whatever tools there are."""
    input: dict[str, Any]


class ToolResultBlock(ApiModel):
    """What a tool gave back."""

    type: Literal["tool_result"]
    tool_use_id: BlockId
    content: str | Annotated[list[ReadableBlock], Field(max_length=MAX_BLOCKS, fail_fast=True)] | None = None
    is_error: bool | None = None
    """Whether the call failed; the model reads `Error: ` before the result then."""


class ThinkingBlock(ApiModel):
    """What the assistant thought before; any signature is taken."""

    type: Literal["thinking"]
    thinking: str
    signature: str | None = None


class RedactedThinkingBlock(ApiModel):
    """What another server's model thought, encrypted: nobody here can read it, and the model is not shown it."""

    type: Literal["redacted_thinking"]
    data: str


Block = Annotated[
    TextBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ToolUseBlock
    | ToolResultBlock
    | ThinkingBlock
    | RedactedThinkingBlock,
    Field(discriminator="type"),
]
