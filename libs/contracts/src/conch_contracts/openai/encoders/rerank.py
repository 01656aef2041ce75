"""Reranking: `POST /v1/rerank`, `/rerank` and `/v2/rerank`, with one answer that clients of all three can read."""

from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.encoders.fields import MAX_INPUTS, Activated, ContentPart, EncoderUsage, InParts, Text
from conch_contracts.openai.sampling import INT32_MAX, Switch


class DocumentText(ApiModel):
    """A document as an object."""

    text: str


class RerankRequest(Activated):
    """What a client may ask."""

    query: Text | InParts
    """One text, or one picture."""
    documents: (
        Annotated[list[str | DocumentText | InParts], Field(min_length=1, max_length=MAX_INPUTS, fail_fast=True)]
        | InParts
    )
    """Each a text, or a picture. Of `content` beside them all, each part is a document."""
    top_n: Annotated[int, Field(ge=0, le=INT32_MAX)] | Annotated[str, Field(pattern=r"^[0-9]{1,9}$")] | None = None
    """Give so many documents back; all when absent or 0."""
    return_documents: Switch | None = None
    """Whether the answer holds the documents: true when absent, and false on `/v2/rerank`."""
    max_tokens_per_query: int | None = Field(default=None, ge=0, le=INT32_MAX)
    """Cut the query at so many tokens; 0 is no limit."""
    max_tokens_per_doc: int | None = Field(default=None, ge=0, le=INT32_MAX)
    """Cut each document at so many tokens; 0 is no limit."""
    truncation: bool | None = None
    """Whether what is too long is cut, instead of refused."""
    encoding_format: Literal["float"] | None = None
    """Scores are always numbers."""


class ReturnedDocument(ApiModel):
    """A document: its text, or the picture that it is."""

    text: str | None = None
    multi_modal: list[ContentPart] | None = None


class RerankResult(ApiModel):
    """One document's place."""

    index: int
    """Its place in the request."""
    relevance_score: float
    document: ReturnedDocument | None = None


class RerankData(RerankResult):
    """The same, for clients that read `data`."""

    object: Literal["rerank"]
    text: str | None = None


class ApiVersion(ApiModel):
    """The version of the API."""

    version: str


class BilledUnits(ApiModel):
    """What the request counts as."""

    search_units: int


class RerankTokens(ApiModel):
    """Tokens of all pairs together."""

    input_tokens: int


class RerankMeta(ApiModel):
    """What Cohere's clients read beside the results."""

    api_version: ApiVersion
    billed_units: BilledUnits
    tokens: RerankTokens


class RerankAnswer(ApiModel):
    """The documents, the most relevant first; `data` and `results` hold the same."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[RerankData]
    results: list[RerankResult]
    meta: RerankMeta
    usage: EncoderUsage
