"""What every generating request may say about how tokens are chosen; chat.py and completions.py build on it."""

from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.openai.model import ApiModel as ApiModel
from conch_contracts.openai.structured import StructuredFields

MAX_CHOICES = 8
MAX_STOP_STRINGS = 16
MAX_ALTERNATIVES = 20
MAX_LISTED = 1024
MAX_WORD_CHARS = 256
MAX_USER_CHARS = 512
INT32_MAX = 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD_CHARS)]
TokenId = Annotated[int, Field(ge=0, le=INT32_MAX)]
TokenIds = Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Switch = bool | Literal["true", "false"]
"""Some clients send the word instead of the value."""


def is_on(value: Switch | None) -> bool:
    """Return what a switch says; absent means off."""
    return value is True or value == "true"


class StreamOptions(ApiModel):
    """What a stream carries beside the text."""

    include_usage: bool | None = None
    """One more frame before the end, with the tokens used and no choices."""


class SamplingFields(StructuredFields):
    """Parameters that chat and text completions share."""

    model: Annotated[str, Field(max_length=10_240)] | None = None
    """A served name; absent, empty or `default` asks for the default model."""
    stream: Switch | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    temperature: float | None = Field(default=None, ge=0, le=2)
    """0 is greedy."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, le=INT32_MAX)
    """-1 and 0 switch it off."""
    min_p: float | None = Field(default=None, ge=0, le=1)
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: float | None = Field(default=None, gt=0, le=100)
    seed: int | None = Field(default=None, ge=INT64_MIN, le=INT64_MAX)
    stop: Word | Annotated[list[Word], Field(max_length=MAX_STOP_STRINGS, fail_fast=True)] | None = None
    stop_token_ids: Annotated[list[TokenId], Field(max_length=MAX_LISTED, fail_fast=True)] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    min_tokens: int | None = Field(default=None, ge=0, le=INT32_MAX)
    bad_words: Annotated[list[Word], Field(max_length=MAX_LISTED, fail_fast=True)] | None = None
    logit_bias: (
        Annotated[
            dict[Annotated[str, Field(pattern=r"^[0-9]{1,10}$")], Annotated[float, Field(ge=-100, le=100)]],
            Field(max_length=MAX_LISTED),
        ]
        | None
    ) = None
    """Token id, as a string, to bias."""
    skip_special_tokens: bool | None = None
    add_special_tokens: bool | None = None
    truncate_prompt_tokens: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """Keep only the last so many tokens of the prompt."""
    prompt_token_ids: TokenIds | None = None
    """The prompt as token ids; takes the place of text."""
    user: Annotated[str, Field(max_length=MAX_USER_CHARS)] | None = None
    metadata: (
        Annotated[
            dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
        ]
        | None
    ) = None
