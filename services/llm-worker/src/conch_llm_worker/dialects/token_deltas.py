"""What every dialect turns an engine's messages into: ids or text, log probabilities, and the end.

Named tuples: one is made per message, so they must be cheap.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class EngineEnd(StrEnum):
    """Why an engine made no more tokens."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """The dialect does not say; the ids do."""


class Logprobs(NamedTuple):
    """Log probabilities of a row of tokens, with the most likely alternatives at each position."""

    chosen: Sequence[float]
    top_ids: Sequence[Sequence[int]]
    """One row per token; no rows when none were asked for."""
    top: Sequence[Sequence[float]]
    ranks: Sequence[int] = ()
    """The place of each token among all, from 1; none where the engine does not tell it."""


class TokenDelta(NamedTuple):
    """What one message of an engine brought."""

    ids: Sequence[int]
    logprobs: Logprobs | None = None
    prompt: Logprobs | None = None
    end: EngineEnd | None = None
    stop_token_id: int | None = None
    text: str = ""
    """What an engine brought that answers with text; `ids` are empty then."""
    made: int | None = None
    """How many tokens `text` stands for, where the engine says so."""


def split(delta: TokenDelta, most: int) -> list[TokenDelta]:
    """Return the same as deltas of at most so many ids each; only the last one holds the end.

    Text stays whole: what belongs to which token is not known.
    """
    return [part(delta, at, at + most) for at in range(0, max(1, len(delta.ids)), most)]


def split_text(delta: TokenDelta, most: int) -> list[TokenDelta]:
    """Return the same as deltas of at most so many characters each; the tokens that an engine tells are the first's."""
    first, *others = (delta.text[at : at + most] for at in range(0, max(1, len(delta.text)), most))
    made = None if delta.made is None else 0
    parts = [TokenDelta((), None, delta.prompt, text=first, made=delta.made)]
    parts += [TokenDelta((), text=text, made=made) for text in others]
    parts[-1] = parts[-1]._replace(end=delta.end, stop_token_id=delta.stop_token_id)
    return parts


def part(delta: TokenDelta, start: int, end: int) -> TokenDelta:
    """Return the tokens from `start` to before `end`; the prompt comes with the first one, the end with the last."""
    rows, found = slice(start, end), delta.logprobs
    logprobs = None if found is None else Logprobs(found.chosen[rows], found.top_ids[rows], found.top[rows])
    prompt = delta.prompt if start == 0 else None
    if end < len(delta.ids):
        return TokenDelta(delta.ids[rows], logprobs, prompt)
    return delta._replace(ids=delta.ids[rows], logprobs=logprobs, prompt=prompt)
