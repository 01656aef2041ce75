"""Embeddings as Cohere's second version has them: `POST /v2/embed`."""

from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.encoders.fields import MAX_INPUTS, EncoderCall, InParts, Texts
from conch_contracts.openai.encoders.rerank import ApiVersion
from conch_contracts.openai.encoders.vectors import VectorType
from conch_contracts.openai.sampling import INT32_MAX

MAX_TYPES = 6


class CohereEmbedRequest(EncoderCall):
    """What a client may ask of `POST /v2/embed`: exactly one of `texts` and `inputs`."""

    texts: Texts | None = None
    inputs: Annotated[list[InParts], Field(min_length=1, max_length=MAX_INPUTS, fail_fast=True)] | None = None
    """Texts in parts, one for each, of which some part is not empty; or pictures, each by itself."""
    input_type: Literal["search_document", "search_query", "classification", "clustering", "image"] | None = None
    """What the texts are for, or `image` for pictures in `inputs`. A model gets texts as they are: one that wants a
    prefix finds it in the text."""
    embedding_types: Annotated[list[VectorType], Field(min_length=1, max_length=MAX_TYPES)] | None = None
    """`["float"]` when absent. `int8` holds each vector scaled until its largest number is 127: compare by cosine;
    `uint8` holds the same plus 128. `binary` and `ubinary` hold the signs, eight to a byte, the first in the highest
    bit; `binary` is less by 128."""
    output_dimension: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """Keep so many numbers of each vector; for models that were trained for it."""
    truncate: Literal["NONE", "START", "END"] | None = None
    """What is left out of a text that is too long: its start, or its end when absent; with `NONE` it is refused."""
    max_tokens: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """A text is too long above so many tokens, or above what the model takes."""


class TypedEmbeddings(ApiModel):
    """All vectors, in the order of the texts, in each form that was asked for."""

    float: list[list[float]] | None = None
    int8: list[list[int]] | None = None
    uint8: list[list[int]] | None = None
    binary: list[list[int]] | None = None
    ubinary: list[list[int]] | None = None
    base64: list[str] | None = None
    """Of little-endian 32-bit floats."""


class BilledTokens(ApiModel):
    """What the request counts as."""

    input_tokens: int


class EmbedMeta(ApiModel):
    """What Cohere's clients read beside the vectors."""

    api_version: ApiVersion
    billed_units: BilledTokens


class CohereEmbedAnswer(ApiModel):
    """The vectors."""

    id: str
    response_type: Literal["embeddings_by_type"]
    texts: list[str]
    """Of what is no picture."""
    meta: EmbedMeta
    embeddings: TypedEmbeddings
