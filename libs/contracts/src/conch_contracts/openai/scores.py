"""Scores of pairs, `POST /score`, and classes of texts, `POST /classify`."""

from typing import Literal

from conch_contracts.openai.encoders import EncoderFields, EncoderUsage, Text, TextContent, Texts
from conch_contracts.openai.sampling import ApiModel


class ScoreRequest(EncoderFields):
    """What a client may ask of `POST /score`: one text against each of several, or texts one by one."""

    text_1: Text | Texts | TextContent
    text_2: Text | Texts | TextContent
    activation: bool | None = None
    """Whether a reranker's scores are 0 to 1, as its deployment says; false: the model's own numbers. The cosine of two
    embeddings is such a number, with either."""
    encoding_format: Literal["float"] | None = None
    """Scores are always numbers."""


class Score(ApiModel):
    """The score of one pair."""

    index: int
    object: Literal["score"]
    score: float


class ScoreList(ApiModel):
    """The scores, in order."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[Score]
    usage: EncoderUsage


class ClassifyRequest(EncoderFields):
    """What a client may ask of `POST /classify`."""

    input: Text | Texts
    activation: bool | None = None
    """Whether `probs` are probabilities; false: the model's own numbers."""


class Classification(ApiModel):
    """The likeliest class of one text, and the probabilities of all."""

    index: int
    label: str
    probs: list[float]
    num_classes: int


class ClassificationUsage(EncoderUsage):
    """Tokens of all texts together."""

    prompt_tokens_details: None = None


class ClassificationList(ApiModel):
    """The classes, in order."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[Classification]
    usage: ClassificationUsage
