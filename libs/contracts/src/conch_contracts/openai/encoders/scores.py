"""Scores of pairs, `POST /score`, and classes of texts, `POST /classify`."""

from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.encoders.fields import MAX_INPUTS, Activated, EncoderUsage, InParts, Text, TextInput

Side = Text | Annotated[list[Text | InParts], Field(min_length=1, max_length=MAX_INPUTS, fail_fast=True)] | InParts
"""One text, a list of which each is a text or a picture, or parts of which each is one."""
SIDES = (("text_1", "text_2"), ("data_1", "data_2"), ("queries", "documents"), ("queries", "items"))
"""What the two sides of the pairs may be called."""


class ScoreRequest(Activated):
    """What a client may ask of `POST /score`: one text or picture against each of several, or one by one."""

    text_1: Side | None = None
    """Required, unless another pair of fields has the texts."""
    text_2: Side | None = None
    """Each part of `content` is a text or a picture of its own."""
    data_1: Side | None = None
    """`text_1` under vLLM's newer name."""
    data_2: Side | None = None
    """`text_2` under vLLM's newer name."""
    queries: Side | None = None
    """`text_1` once more; goes together with `documents` or `items`."""
    documents: Side | None = None
    """`text_2`, where `queries` stands for `text_1`."""
    items: Side | None = None
    """`text_2` likewise, under another name."""
    encoding_format: Literal["float"] | None = None
    """Scores are always numbers."""

    @property
    def given(self) -> dict[str, Side]:
        """Return the texts of either side by the names under which they came."""
        named = {name: getattr(self, name) for sides in SIDES for name in sides}
        return {name: texts for name, texts in named.items() if texts is not None}


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


class ClassificationList(ApiModel):
    """The classes, in order."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[Classification]
    usage: EncoderUsage
