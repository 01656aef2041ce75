"""What only encoders have: embedding models, rerankers and classifiers."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from conch_contracts.records import Pooling
from conch_contracts.spec.fields import Duration, Flag, SpecPart

TensorName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:/-]+$", max_length=200)]


class Process(StrEnum):
    """What is done with a model's output."""

    NORMALIZE = "normalize"
    NONE = "none"


class TensorInputsSpec(SpecPart):
    """What the model calls its inputs."""

    input_ids: Annotated[TensorName | None, Field(alias="input_ids")] = None
    """The token ids. Default: input_ids."""
    attention_mask: Annotated[TensorName | None, Field(alias="attention_mask")] = None
    """1 for a token and 0 for padding. Default: attention_mask."""
    token_type_ids: Annotated[TensorName | None, Field(alias="token_type_ids")] = None
    """0 for the first text and 1 for the second of a pair; sent when the model declares it. Default: token_type_ids."""


class TensorOutputSpec(SpecPart):
    """Which output is read, and what is done with it."""

    name: TensorName | None = None
    """Its name. Default: the one that the model's config and kind suggest."""
    process: Process | None = None
    """normalize scales embeddings to length 1 and makes scores 0 to 1; none leaves the numbers as they are. Default:
    what the folder says, else normalize."""


class TensorsSpec(SpecPart):
    """The tensors of a model whose names differ from the usual ones."""

    inputs: TensorInputsSpec = TensorInputsSpec()
    """What the model calls its inputs."""
    output: TensorOutputSpec = TensorOutputSpec()
    """Which output is read."""


class EmbeddingSpec(SpecPart):
    """How an embedding is made of a model's output."""

    pooling: Pooling | None = None
    """How one vector is made of the tokens' vectors: mean, cls (the first token's) or last (the last token's).
    Default: what the folder's modules.json says, else mean."""
    matryoshka: Flag | None = None
    """Whether clients may ask for fewer `dimensions`, because the model was trained so that the first ones suffice.
    Default: what the folder's config.json says, else false."""


class AnswerCacheSpec(SpecPart):
    """Answers to equal requests from Redis."""

    ttl: Duration
    """How long an answer is kept, such as 10m."""
