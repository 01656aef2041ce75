"""What one message of an engine adds to a choice: text, tokens, events, or its end.

Named tuples: one or more are made per token, so they must be cheap.
"""

from collections.abc import Sequence
from typing import NamedTuple

from conch_llm_worker.parsing.answer_events import Event


class ChoiceFinish(NamedTuple):
    """Why a choice ended, as the API says it."""

    reason: str
    stop_reason: str | int | None = None


class TokenEntry(NamedTuple):
    """One token with its log probability and where its text begins."""

    offset: int
    """Characters of the choice's text before it."""
    token_id: int
    logprob: float | None
    """None for a prompt's first token."""
    top_ids: Sequence[int]
    top: Sequence[float]
    rank: int | None = None
    """Of a prompt's token among all, from 1, where the engine tells it."""


class ChoiceUpdate(NamedTuple):
    """What one engine message added to a choice."""

    text: str
    entries: Sequence[TokenEntry] = ()
    finish: ChoiceFinish | None = None
    events: Sequence[Event] = ()
    """What comes before the text, in an answer that is taken apart."""
    ids: Sequence[int] = ()
    """The ids that the engine made, the ending one too; where `ChoiceRules.report_tokens` is set, like what follows."""
    logprob_sum: float = 0.0
    """The sum of those ids' log probabilities."""
    prompt: Sequence[TokenEntry] = ()
    """The prompt's tokens, in the first update of a choice that shows them."""
    tokens: int = 0
    """How many tokens the engine made, where `ChoiceRules.report_tokens` is set: engines of text tell no ids."""
    reasoning_tokens: int = 0
    """How many tokens of thinking were found, where `ChoiceRules.report_tokens` is set."""
