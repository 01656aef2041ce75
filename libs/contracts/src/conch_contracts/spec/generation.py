"""What a request for a language model gets when it does not say otherwise, and what is always sent to the engine."""

from typing import Annotated

from pydantic import AfterValidator, Field

from conch_contracts.bad_and_stop_word_ids import parse_words
from conch_contracts.spec.fields import DecimalString, Integer, SpecPart, within
from conch_contracts.spec.rule_types import Obeys, Rule
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser

TokenId = Annotated[Integer, Field(ge=-(2**31), lt=2**31)]


def _readable(rows: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    parse_words(rows)
    return rows


_WORDS_OR_OFFSETS = Obeys(
    Rule(
        cel="self.all(row, size(row) > 0 && row.all(token, token >= 0)) || (size(self) == 2 && "
        "size(self[0]) == size(self[1]) && size(self[0]) > 0)",
        message="a word's token ids must not be negative, and no word empty; FasterTransformer's form is two rows of "
        "one length: ids, and the offset behind each word's last id",
        holds=lambda rows: (
            all(row and min(row) >= 0 for row in rows)
            or (len(rows) == 2 and len(rows[0]) == len(rows[1]) and len(rows[0]) > 0)
        ),
    )
)

WordRows = Annotated[
    tuple[Annotated[tuple[TokenId, ...], Field(max_length=1024)], ...],
    Field(max_length=1024),
    _WORDS_OR_OFFSETS,
    AfterValidator(_readable),
]


PREFIX, SUFFIX = "{prefix}", "{suffix}"
"""Where a fill-in template takes what comes before the gap, and what comes behind it."""

_BOTH_SIDES = Obeys(
    Rule(
        cel=f"self.split('{PREFIX}').size() == 2 && self.split('{SUFFIX}').size() == 2",
        message=f"must hold {PREFIX} and {SUFFIX} once each",
        holds=lambda template: template.count(PREFIX) == template.count(SUFFIX) == 1,
    )
)


class GenerationSpec(SpecPart):
    """Defaults for requests, and values for the engine."""

    start_id: TokenId | None = None
    """Sent to a fastertransformer engine as `start_id`; negative: not sent. Default: not sent."""
    end_id: TokenId | None = None
    """Sent to a fastertransformer engine as `end_id` and added to the ids that end an answer; negative: neither.
    Default: the end-of-sequence ids of the model's folder."""
    max_length: Annotated[Integer, Field(ge=1, le=16_777_216)] | None = None
    """Tokens of prompt and answer together; what the model's config allows still bounds it. Default: the config's."""
    bad_words: WordRows = ()
    """Words as token ids that must not appear: a list of words [[7768], [3908, 5]], or FasterTransformer's two rows of
    ids and end offsets [[7768, 3908], [1, 2]]. Default: none."""
    stop_words: WordRows = ()
    """Words as token ids that end an answer, in the same two forms. Default: none."""
    temperature: Annotated[DecimalString, within(0, 2, low_too=True)] | None = None
    """Sampling temperature for requests that name none, 0 to 2, in quotes. Default: that of the folder's
    generation_config.json, else the API's, 1."""
    top_p: Annotated[DecimalString, within(0, 1, low_too=False)] | None = None
    """Nucleus for requests that name none, in quotes; "1" is off. Default: the folder's, else off."""
    top_k: Annotated[Integer, Field(ge=0, lt=2**31)] | None = None
    """How many of the likeliest tokens are drawn from for requests that do not say; 0 is off. Default: the folder's,
    else off."""
    min_p: Annotated[DecimalString, within(0, 1, low_too=True)] | None = None
    """Least probability, as a share of the likeliest token's, for requests that name none, in quotes; "0" is off.
    Default: the folder's, else off."""
    repetition_penalty: Annotated[DecimalString, within(0, 10, low_too=False)] | None = None
    """Repetition penalty for requests that name none, in quotes; "1" is off. Default: the folder's, else off."""
    fill_in: Annotated[str, Field(max_length=512), _BOTH_SIDES] | None = None
    """How a model that fills in the middle wants its prompt, such as
    "<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>". Default: none, and `suffix` is refused."""
    reasoning_parser: ReasoningParser | None = None
    """How the model marks its thinking: think, deepseek-r1, mistral, seed or granite; none leaves it in the content.
    Default: what the chat template shows."""
    tool_call_parser: ToolCallParser | None = None
    """How the model writes calls of tools: hermes, llama3, mistral, qwen3-coder, deepseek, glm, kimi-k2, pythonic or
    json; none leaves them in the content. Default: what the chat template shows."""
    mask_positions: TokenId | None = None
    """Sent as `mask_positions` when the engine's config declares that input. Default: not sent."""
