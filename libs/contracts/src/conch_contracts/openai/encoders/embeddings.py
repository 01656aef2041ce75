"""Embeddings: `POST /v1/embeddings`; and `POST /pooling`, which gives a vector for each token."""

from typing import Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.encoders.fields import EncoderUsage, TextInput
from conch_contracts.openai.sampling import INT32_MAX


class InputFields(TextInput):
    """How vectors are to look."""

    encoding_format: Literal["float", "base64"] | None = None
    """`base64` is that of little-endian 32-bit floats."""
    embed_dtype: Literal["float32"] | None = None
    endianness: Literal["native", "little"] | None = None
    """What `base64` holds; there is only one form of it."""
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

    task: Literal["token_embed"] | None = None
    """There is only one: a vector for each token."""
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
