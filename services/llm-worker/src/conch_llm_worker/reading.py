"""A choice whose text is taken apart while it is made: what `parsing` finds in it takes the text's place in its steps.

The text is read as it is released, token by token, so that the tokens of the thinking can be counted; once all that
follows is content, messages pass through as they are. Stop strings are looked for in what the model writes, in its
thinking and its calls too, as vLLM does.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from conch_llm_worker.dialects.deltas import Logprobs, TokenDelta
from conch_llm_worker.generation import Finish, Step, TokenEntry
from conch_llm_worker.parsing.events import Content, Event, append
from conch_llm_worker.parsing.reader import AnswerReader

TOOL_CALLS = "tool_calls"
"""Why an answer ended that calls tools and was not cut."""


class Making(Protocol):
    """A choice in the making."""

    @property
    def completion_tokens(self) -> int:
        """How many tokens the engine has made for it."""
        ...

    def feed(self, delta: TokenDelta) -> Step:
        """Take an engine's message and return what it adds."""
        ...


class Reading:
    """One choice in the making, and the reader of its text."""

    def __init__(self, generation: Making, reader: AnswerReader) -> None:
        self.reasoning_tokens = 0
        """Tokens between the marks of the thinking."""
        self._generation = generation
        self._reader = reader

    def feed(self, delta: TokenDelta) -> Step:
        """Take an engine's message and return what it adds; nothing may be fed after a step with a finish."""
        if self._reader.plain:
            return self._generation.feed(delta)
        events: list[Event] = []
        entries: list[TokenEntry] = []
        finish: Finish | None = None
        for single in _one_by_one(delta):
            made = self._generation.completion_tokens
            step = self._generation.feed(single)
            entries += step.entries
            for event in self._read(step, self._generation.completion_tokens - made):
                append(events, event)
            finish = step.finish
            if finish is not None:
                break
        return Step("", entries, finish if finish is None else self._as_read(finish), events)

    def _read(self, step: Step, tokens: int) -> Sequence[Event]:
        reader = self._reader
        if reader.plain:
            return [Content(step.text)] if step.text else ()
        before = reader.thinking
        events = reader.feed(step.text) if step.text else ()
        if before and reader.thinking:
            self.reasoning_tokens += tokens
        if step.finish is not None and not reader.plain:
            cut = step.finish.reason != "stop" or isinstance(step.finish.stop_reason, str)
            return [*events, *reader.finish(cut=cut)]
        return events

    def _as_read(self, finish: Finish) -> Finish:
        if finish.reason == "stop" and self._reader.calls and not self._reader.incomplete:
            return Finish(TOOL_CALLS, finish.stop_reason)
        return finish


def _one_by_one(delta: TokenDelta) -> Iterator[TokenDelta]:
    """Yield a message for each token of a message; what it says of the end stays with the last."""
    if len(delta.ids) < 2:
        yield delta
        return
    for at, token_id in enumerate(delta.ids):
        logprobs = None if delta.logprobs is None else _at(delta.logprobs, at)
        if at < len(delta.ids) - 1:
            yield TokenDelta((token_id,), logprobs)
        else:
            yield TokenDelta((token_id,), logprobs, end=delta.end, stop_token_id=delta.stop_token_id)


def _at(logprobs: Logprobs, at: int) -> Logprobs:
    top_ids, top = logprobs.top_ids, logprobs.top
    one = slice(at, at + 1)
    return Logprobs(logprobs.chosen[one], top_ids[one] if top_ids else (), top[one] if top else ())
