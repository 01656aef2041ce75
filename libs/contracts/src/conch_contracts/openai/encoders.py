"""What requests to encoders share: the texts that they hold, and how they are cut."""

from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.openai.chat import MAX_PARTS, TextPart
from conch_contracts.openai.model import Metadata
from conch_contracts.openai.sampling import INT32_MAX, MAX_USER_CHARS, ApiModel, Priority, RequestName

MAX_INPUTS = 2048

Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MAX_INPUTS, fail_fast=True)]


class TextContent(ApiModel):
    """A text in parts."""

    content: Annotated[list[TextPart], Field(min_length=1, max_length=MAX_PARTS, fail_fast=True)]


class EncoderFields(ApiModel):
    """Parameters that all requests to encoders share."""

    model: Annotated[str, Field(max_length=10_240)] | None = None
    """A served name; absent, empty or `default` asks for the default model."""
    truncate_prompt_tokens: Literal[-1] | Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Cut each text at so many tokens; -1 stands for the longest that the model takes."""
    priority: Priority | None = None
    """Of the requests that wait for an engine, those with a lower number go first."""
    request_id: RequestName | None = None
    """The end of the answer's `id`, and its `x-request-id` where the request has no such header."""
    user: Annotated[str, Field(max_length=MAX_USER_CHARS)] | None = None
    metadata: Metadata | None = None


class EncoderUsage(ApiModel):
    """Tokens of all texts together."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int = 0


def plain(text: str | TextContent) -> str:
    """Return a text whose parts are joined."""
    return text if isinstance(text, str) else "\n".join(part.text for part in text.content)
