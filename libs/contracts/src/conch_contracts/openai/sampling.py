"""What every generating request may say about how tokens are chosen; `chat` and `completions` build on it."""

from typing import Annotated, Any, Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel, MetadataKey, MetadataText, Options
from conch_contracts.openai.structured_output import StructuredFields

MAX_CHOICES = 8
MAX_STOP_STRINGS = 16
MAX_ALTERNATIVES = 20
MAX_NAMED_IDS = 128
MAX_LISTED = 1024
MAX_ALLOWED = 262_144
MAX_WORD_CHARS = 256
MAX_SALT_CHARS = 256
MAX_USER_CHARS = 512
MAX_ARGUMENTS = 64
INT32_MAX = 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD_CHARS)]
TokenId = Annotated[int, Field(ge=0, le=INT32_MAX)]
TokenIds = Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Priority = Annotated[int, Field(ge=-INT32_MAX, le=INT32_MAX)]
BATCH_PRIORITY = 10
"""From this priority on a request is part of a batch: it waits, but no engine is started for it where none runs."""
RequestName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:\-]{1,128}$")]
Switch = bool | Literal["true", "false"]
"""Some clients send the word instead of the value."""


def is_on(value: Switch | None) -> bool:
    """Return what a switch says; absent means off."""
    return value is True or value == "true"


class DrawingFields(ApiModel):
    """How tokens are drawn and shown, when they end, and how the request is served; the same in each generating API."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    """0 is greedy."""
    top_p: float | None = Field(default=None, ge=0, le=1)
    """Draw among the likeliest tokens that have this much of the probability together; 0, only the likeliest of all, is
    for deployments with the profile `fastdeploy`."""
    top_k: int | None = Field(default=None, ge=-1, le=INT32_MAX)
    """Draw among so many of the likeliest tokens; -1 and 0 switch it off."""
    min_p: float | None = Field(default=None, ge=0, le=1)
    """Draw among tokens that are at least so likely, compared to the likeliest."""
    frequency_penalty: Penalty | None = None
    """Above 0 makes a token less likely each time that it has been written."""
    presence_penalty: Penalty | None = None
    """Above 0 makes a token less likely once it has been written."""
    repetition_penalty: float | None = Field(default=None, gt=0, le=100)
    """Above 1 makes tokens of the prompt and of the answer less likely, by this factor."""
    seed: int | None = Field(default=None, ge=INT64_MIN, le=INT64_MAX)
    """The same request with the same seed has the same answer on the cpu runtime; on GPUs nearly, since sums change
    with what else is in the batch."""
    stop: (
        Annotated[str, Field(max_length=MAX_WORD_CHARS)]
        | Annotated[
            list[Annotated[str, Field(max_length=MAX_WORD_CHARS)]], Field(max_length=MAX_STOP_STRINGS, fail_fast=True)
        ]
        | None
    ) = None
    """The answer ends before the first of these texts."""
    stop_token_ids: Annotated[list[TokenId], Field(max_length=MAX_LISTED, fail_fast=True)] | None = None
    """The answer ends at the first of these ids."""
    ignore_eos: bool | None = None
    """Go on behind an end-of-sequence token."""
    min_tokens: int | None = Field(default=None, ge=0, le=INT32_MAX)
    """The answer does not end or stop before it has so many tokens."""
    include_stop_str_in_output: bool | None = None
    """Leave the text of `stop` that ended the answer at its end."""
    logit_bias: (
        Annotated[
            dict[Annotated[str, Field(pattern=r"^[0-9]{1,10}$")], Annotated[float, Field(ge=-100, le=100)]],
            Field(max_length=MAX_LISTED),
        ]
        | None
    ) = None
    """Token id, as a string, to bias."""
    skip_special_tokens: bool | None = None
    """False: special tokens are shown in the text."""
    priority: Priority | None = None
    """Of the requests that wait for an engine, those with a lower number go first. From 10 on a request is part of a
    batch, for which no engine is started where none runs."""
    cache_salt: Annotated[str, Field(min_length=1, max_length=MAX_SALT_CHARS)] | None = None
    """Only requests with the same salt share cached prefixes."""
    vllm_xargs: Annotated[dict[str, str | int | float], Field(max_length=MAX_ARGUMENTS)] | None = None
    """For engines that take arguments of their own."""


class StreamOptions(Options):
    """What a stream carries beside the text."""

    include_usage: bool | None = None
    """One more frame before the end, with the tokens used and no choices."""
    continuous_usage_stats: bool | None = None
    """The tokens used so far in every frame, unless `include_usage` is false."""
    include_obfuscation: bool | None = None
    """Only false: no padding is sent."""


class SamplingFields(StructuredFields, DrawingFields):
    """Parameters that chat and text completions share."""

    model: Annotated[str, Field(max_length=10_240)] | None = None
    """A served name; absent, empty or `default` asks for the default model."""
    stream: Switch | None = None
    """Send the answer piece by piece, as server-sent events."""
    stream_options: StreamOptions | None = None
    """Only with `stream`."""
    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    """How many answers to make; 1 when absent."""
    best_of: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    """Makes so many choices and returns the `n` whose tokens are likeliest on average; not with `stream`."""
    use_beam_search: bool | None = None
    """Searches for the likeliest answers with `best_of` or `n` beams; not with `stream`."""
    length_penalty: float | None = Field(default=None, ge=-10, le=10)
    """For beam search: above 1 favours longer answers."""
    bad_words: Annotated[list[Word], Field(max_length=MAX_LISTED, fail_fast=True)] | None = None
    """Texts that must not appear, with or without a space before them."""
    bad_words_token_ids: Annotated[list[TokenId], Field(max_length=MAX_LISTED, fail_fast=True)] | None = None
    """Ids that must not appear."""
    allowed_token_ids: Annotated[list[TokenId], Field(min_length=1, max_length=MAX_ALLOWED, fail_fast=True)] | None = (
        None
    )
    """The only ids that may appear; an end-of-sequence id only when it is among them."""
    logprob_token_ids: Annotated[list[TokenId], Field(max_length=MAX_NAMED_IDS, fail_fast=True)] | None = None
    """Report the log probabilities of these ids at each position, instead of the likeliest ones; with `logprobs`."""
    prompt_logprobs: int | None = Field(default=None, ge=0, le=MAX_ALTERNATIVES)
    """Alternatives to report for each token of the prompt; not with `stream`."""
    temp_scaled_logprobs: bool | None = None
    """Report the log probabilities that the temperature makes of the model's own."""
    top_p_normalized_logprobs: bool | None = None
    """Report log probabilities among the tokens that `top_p` leaves."""
    return_tokens_as_token_ids: bool | None = None
    """Name tokens in log probabilities as `token_id:7`."""
    return_token_ids: bool | None = None
    """Show the ids of prompt and answer beside the text."""
    max_streaming_response_tokens: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """The most tokens in one frame of a stream."""
    spaces_between_special_tokens: bool | None = None
    """False: no spaces between special tokens that are shown."""
    add_special_tokens: bool | None = None
    """Whether the tokenizer adds special tokens to the prompt, such as that of the beginning: false for chat, whose
    template writes them, else true."""
    truncate_prompt_tokens: Literal[-1] | Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Keep only so many tokens of the prompt, the last ones; -1: as many as leave room for the answer."""
    truncation_side: Literal["left", "right"] | None = None
    """Where `truncate_prompt_tokens` cuts the prompt: `left` drops the first tokens, as if absent, `right` the last."""
    prompt_token_ids: TokenIds | None = None
    """The prompt as token ids; takes the place of text."""
    request_id: RequestName | None = None
    """The end of the answer's `id`, and its `x-request-id` where the request has no such header."""
    kv_transfer_params: Annotated[dict[str, Any], Field(max_length=MAX_ARGUMENTS)] | None = None
    """Where an engine finds cached prefixes, for engines that hand them over; comes back as it was sent, with an answer
    that is not streamed. `do_remote_decode` is refused: no backend tells where it leaves the cache."""
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    """There is one tier; the answer says `default`."""
    user: Annotated[str, Field(max_length=MAX_USER_CHARS)] | None = None
    """Whom the client asks for: a note for the access log."""
    metadata: Annotated[dict[MetadataKey, MetadataText | int | bool], Field(max_length=16)] | None = None
    """Texts, which come back with an answer that is not streamed. `min_tokens` here counts where the request has no
    other, and may be a number; with the profile `fastdeploy`, `enable_thinking` of chat is a switch."""
