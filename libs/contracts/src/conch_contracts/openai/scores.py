"""Scores of pairs, `POST /score`, and classes of texts, `POST /classify`."""

from typing import Literal

from conch_contracts.openai.encoders import Activated, EncoderUsage, Text, TextContent, TextInput, Texts
from conch_contracts.openai.sampling import ApiModel


class ScoreRequest(Activated):
    """What a client may ask of `POST /score`: one text against each of several, or texts one by one."""

    text_1: Text | Texts | TextContent
    text_2: Text | Texts | TextContent
    """Each part of `content` is a text of its own."""
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


class ClassifyRequest(TextInput, Activated):
    """What a client may ask of `POST /classify`."""


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
