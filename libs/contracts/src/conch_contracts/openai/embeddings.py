"""Embeddings: `POST /v1/embeddings`; and `POST /pooling`, which gives a vector for each token."""

from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.openai.chat import MAX_MESSAGES, ChatMessage
from conch_contracts.openai.encoders import MAX_INPUTS, EncoderFields, EncoderUsage, Text, Texts
from conch_contracts.openai.sampling import INT32_MAX, ApiModel, TokenIds


class InputFields(EncoderFields):
    """What is to be encoded: exactly one of `input` and `messages`."""

    input: (
        Text | Texts | TokenIds | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_INPUTS, fail_fast=True)]
    ) | None = None
    """A text, texts, token ids, or several lists of them."""
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)] | None = None
    """A conversation, rendered with the model's chat template into one text."""
    add_generation_prompt: bool | None = None
    add_special_tokens: bool | None = None
    """Whether the tokenizer adds its special tokens: true for `input`, false for `messages` when absent."""
    encoding_format: Literal["float", "base64"] | None = None
    """`base64` is that of little-endian 32-bit floats."""
    dimensions: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """Keep so many numbers of each vector; for models that were trained for it."""


class EmbeddingRequest(InputFields):
    """What a client may ask of `POST /v1/embeddings`."""

    normalize: bool | None = None
    """Whether vectors are scaled to length 1; the model's own choice when absent."""


class PoolingRequest(InputFields):
    """What a client may ask of `POST /pooling`."""

    normalize: bool | None = None
    """Whether each token's vector is scaled to length 1: false when absent, because what models say of it is about the
    vector of a whole text."""


class Embedding(ApiModel):
    """The vector of one input."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingList(ApiModel):
    """The answer, in the order of the inputs."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EncoderUsage


class PooledData(ApiModel):
    """The vectors of one input's tokens."""

    object: Literal["pooling"]
    index: int
    data: list[list[float]] | str


class PooledList(ApiModel):
    """The answer, in the order of the inputs."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[PooledData]
    usage: EncoderUsage
