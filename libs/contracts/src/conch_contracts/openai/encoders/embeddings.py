"""Embeddings: `POST /v1/embeddings`; and `POST /pooling`, which gives a vector for each token."""

from typing import Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.encoders.fields import EncoderUsage, TextInput
from conch_contracts.openai.encoders.vectors import NumberType
from conch_contracts.openai.sampling import INT32_MAX


class InputFields(TextInput):
    """How vectors are to look."""

    encoding_format: Literal["float", "base64", "bytes", "bytes_only"] | None = None
    """`base64` is that of the packed numbers; `bytes` is all vectors packed, with what they are in the header
    `metadata`, and `bytes_only` the same without the header."""
    embed_dtype: NumberType | None = None
    """What packed numbers are: `float32` when absent."""
    endianness: Literal["native", "little", "big"] | None = None
    """The order of a packed number's bytes; `native` is `little`."""
    dimensions: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """Keep so many numbers of each vector; for models that were trained for it."""
    use_activation: bool | None = None
    """The same as `normalize`, under vLLM's newer name."""


class EmbeddingRequest(InputFields):
    """What a client may ask of `POST /v1/embeddings`."""

    normalize: bool | None = None
    """Whether vectors are scaled to length 1; the model's own choice when absent."""


class PoolingRequest(InputFields):
    """What a client may ask of `POST /pooling`."""

    task: Literal["embed", "token_embed", "classify", "token_classify"] | None = None
    """What is made of each text. Of an embedding model `token_embed`, a vector for each token, when absent, or `embed`,
    one for the text; of a classifier `classify`, the numbers of its classes, when absent, or `token_classify`, those of
    each token."""
    activation: bool | None = None
    """The same as `use_activation`, under vLLM's older name."""
    normalize: bool | None = None
    """Whether vectors are scaled to length 1: when absent, those of tokens are not, because what models say of it is
    about the vector of a whole text."""


class Embedding(ApiModel):
    """The vector of one input."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingList(ApiModel):
    """The answer, in the order of the inputs."""

    id: str
    object: Literal["list"]
    created: int
    """Unix seconds."""
    data: list[Embedding]
    model: str
    usage: EncoderUsage


class PooledData(ApiModel):
    """The vectors of one input's tokens, or its one vector."""

    object: Literal["pooling"]
    index: int
    data: list[list[float]] | list[float] | str


class PooledList(ApiModel):
    """The answer, in the order of the inputs."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[PooledData]
    usage: EncoderUsage
