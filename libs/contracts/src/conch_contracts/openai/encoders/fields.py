"""What requests to encoders share: the texts and pictures that they hold, and how texts are cut."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from conch_contracts.openai.api_model import ApiModel, Metadata
from conch_contracts.openai.chat import MAX_MESSAGES, MAX_PARTS, ChatMessage, ImagePart, TextPart
from conch_contracts.openai.sampling import INT32_MAX, MAX_SALT_CHARS, MAX_USER_CHARS, Priority, RequestName, TokenIds

MAX_INPUTS = 2048

Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MAX_INPUTS, fail_fast=True)]


def part_type(part: object) -> str:
    """Return the type by which a part is read; what has none that is known is read as a text, which it is not."""
    kind = part.get("type") if isinstance(part, dict) else getattr(part, "type", None)
    return "image_url" if kind == "image_url" else "text"


ContentPart = Annotated[
    Annotated[TextPart, Tag("text")] | Annotated[ImagePart, Tag("image_url")], Discriminator(part_type)
]


class InParts(ApiModel):
    """A text in parts, or pictures for a model that makes vectors of them."""

    content: Annotated[list[ContentPart], Field(min_length=1, max_length=MAX_PARTS, fail_fast=True)]


class EncoderCall(ApiModel):
    """Parameters that all requests to encoders share."""

    model: Annotated[str, Field(max_length=10_240)] | None = None
    """A served name; absent, empty or `default` asks for the default model."""
    cache_salt: Annotated[str, Field(min_length=1, max_length=MAX_SALT_CHARS)] | None = None
    """Answers from the model's cache are shared only by requests that have the same one."""
    priority: Priority | None = None
    """Of the requests that wait for an engine, those with a lower number go first. From 10 on a request is part of a
    batch, for which no engine is started where none runs."""
    request_id: RequestName | None = None
    """The end of the answer's `id`, and its `x-request-id` where the request has no such header."""
    user: Annotated[str, Field(max_length=MAX_USER_CHARS)] | None = None
    metadata: Metadata | None = None


class EncoderFields(EncoderCall):
    """A request that says as vLLM's do where texts are cut."""

    truncate_prompt_tokens: Literal[-1] | Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Cut each text at so many tokens; -1 stands for the longest that the model takes."""
    truncation_side: Literal["left", "right"] | None = None
    """Where a text that is too long is cut: `right` keeps its beginning, `left` its end; as the model's tokenizer does
    when absent."""


class TextInput(EncoderFields):
    """What is to be encoded: exactly one of `input` and `messages`."""

    input: (
        Text | Texts | TokenIds | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_INPUTS, fail_fast=True)]
    ) | None = None
    """A text, texts, token ids, or several lists of them."""
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)] | None = None
    """A conversation, rendered with the model's chat template into one text. A model of texts and pictures has no
    template: it reads the texts as they are, or sees one picture."""
    add_generation_prompt: bool | None = None
    """Whether the beginning of an answer follows the conversation: false if absent."""
    continue_final_message: bool | None = None
    """Leave the last message open, as one that goes on; excludes `add_generation_prompt`."""
    add_special_tokens: bool | None = None
    """Whether the tokenizer adds its special tokens: true for `input`, false for `messages` when absent."""


class Activated(EncoderFields):
    """A request whose numbers may be the model's own."""

    activation: bool | None = None
    """Whether numbers are scaled as the model's deployment says, to 0 to 1 or to probabilities; false: the model's own.
    The cosine of two embeddings is its own number, with either."""
    use_activation: bool | None = None
    """The same, under vLLM's newer name."""


class EncoderUsage(ApiModel):
    """Tokens of all texts together."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int = 0
    prompt_tokens_details: None = None
