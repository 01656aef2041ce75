"""A choice whose text is taken apart while it is made: its updates hold the events that `parsing` finds, and no text.

The thinking is read as it is released, token by token, so that its tokens can be counted; once all that follows is
content, messages pass through as they are. Stop strings are looked for in what the model writes, in its
thinking and its calls too, as vLLM does. Engines of text do not say which tokens a message's text is made of: there
the text of the thinking is counted by the model's tokenizer.
"""

from collections.abc import Sequence
from typing import TypeAlias

from conch_contracts.messages.answer_parsing import Parsing
from conch_llm_worker.dialects.token_deltas import TokenDelta, part
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate, TokenEntry
from conch_llm_worker.generation.id_generation import IdGeneration
from conch_llm_worker.generation.text_generation import TextGeneration, TokenCount
from conch_llm_worker.parsing.answer_events import Content, Event, joined
from conch_llm_worker.parsing.answer_reader import AnswerReader
from conch_llm_worker.parsing.tool_calls.call_ids import call_ids
from conch_llm_worker.text.vocabulary import Vocabulary

Generation: TypeAlias = IdGeneration | TextGeneration

TOOL_CALLS = "tool_calls"
"""Why an answer ended that calls tools and was not cut."""


class ParsedGeneration:
    """One choice in the making, and the reader of its text."""

    def __init__(
        self,
        generation: Generation,
        reader: AnswerReader,
        reasoning_count: TokenCount | None = None,
        *,
        report_tokens: bool = False,
        entries_of_texts: bool = False,
    ) -> None:
        """Begin an answer; `reasoning_count` counts the thinking by its text, where engines tell no tokens."""
        self._reasoning_tokens = 0
        self._entries_of_texts = entries_of_texts
        self._held: list[TokenEntry] = []
        """Entries of which nobody knows yet whether they are of text for the reader."""
        self._generation = generation
        self._reader = reader
        self._reasoning_count = reasoning_count
        self._report_tokens = report_tokens

    @classmethod
    def of(
        cls,
        generation: Generation,
        parsing: Parsing,
        vocabulary: Vocabulary,
        *,
        report_tokens: bool = False,
        entries_of_texts: bool = False,
    ) -> "ParsedGeneration":
        """Return what reads the answer of an engine of either kind; `report_tokens`: updates count the thinking.

        `entries_of_texts`: updates hold the entries of content alone, each with it; to be fed token by token.
        """
        reasoning_count = TokenCount(vocabulary) if isinstance(generation, TextGeneration) else None
        reader = AnswerReader(parsing, call_ids(parsing), None if reasoning_count is None else reasoning_count.add)
        return cls(generation, reader, reasoning_count, report_tokens=report_tokens, entries_of_texts=entries_of_texts)

    @property
    def reasoning_tokens(self) -> int:
        """Tokens between the marks of the thinking."""
        return self._reasoning_tokens if self._reasoning_count is None else self._reasoning_count.total()

    def feed(self, delta: TokenDelta) -> ChoiceUpdate:
        """Take an engine's message and return what it adds; nothing may be fed after an update with a finish."""
        if self._reader.plain:
            return self._with_held(self._generation.feed(delta))
        if len(delta.ids) < 2 or self._reader.thinking_over:
            return self._feed_part(delta)
        events: list[Event] = []
        entries: list[TokenEntry] = []
        ids: list[int] = []
        logprob_sum, tokens, reasoning_tokens = 0.0, 0, 0
        update, at = ChoiceUpdate(""), 0
        while at < len(delta.ids) and update.finish is None:
            end = len(delta.ids) if self._reader.thinking_over else at + 1
            update, at = self._feed_part(part(delta, at, end)), end
            entries += update.entries
            ids += update.ids
            logprob_sum += update.logprob_sum
            tokens += update.tokens
            reasoning_tokens += update.reasoning_tokens
            events += update.events
        return ChoiceUpdate("", entries, update.finish, joined(events), ids, logprob_sum, (), tokens, reasoning_tokens)

    def _feed_part(self, delta: TokenDelta) -> ChoiceUpdate:
        """Take a text, or ids of which none or each is thinking: a single one, or those behind the thinking."""
        generation, before, thought = self._generation, self._reasoning_tokens, self._reader.thinking
        if self._reasoning_count is None:
            made = generation.completion_tokens
            update = generation.feed(delta)
            events = self._read(update, generation.completion_tokens - made)
        else:
            update = generation.feed(delta)
            events = self._read(update, 0)
            if self._report_tokens:
                self._reasoning_tokens = self._reasoning_count.total()
        finish = None if update.finish is None else self._as_read(update.finish)
        if self._entries_of_texts:
            thought = thought or self._reader.thinking
            update = update._replace(entries=self._of_text(update, events, thought=thought))
        return update._replace(text="", finish=finish, events=events, reasoning_tokens=self._reasoning_tokens - before)

    def _of_text(self, update: ChoiceUpdate, events: Sequence[Event], *, thought: bool) -> Sequence[TokenEntry]:
        """Return the entries that are known to be of content now."""
        self._held += update.entries
        if update.finish is None and not any(isinstance(event, Content) for event in events):
            if thought or events:
                self._held.clear()
            return ()
        held, self._held = self._held, []
        return held

    def _with_held(self, update: ChoiceUpdate) -> ChoiceUpdate:
        held, self._held = self._held, []
        return update._replace(entries=[*held, *update.entries]) if held else update

    def _read(self, update: ChoiceUpdate, tokens: int) -> Sequence[Event]:
        reader = self._reader
        if reader.plain:
            return [Content(update.text)] if update.text else ()
        before = reader.thinking
        events = reader.feed(update.text) if update.text else ()
        if before and reader.thinking:
            self._reasoning_tokens += tokens
        if update.finish is not None and not reader.plain:
            cut = update.finish.reason != "stop" or isinstance(update.finish.stop_reason, str)
            return [*events, *reader.finish(cut=cut)]
        return events

    def _as_read(self, finish: ChoiceFinish) -> ChoiceFinish:
        if finish.reason == "stop" and self._reader.calls and not self._reader.incomplete:
            return ChoiceFinish(TOOL_CALLS, finish.stop_reason)
        return finish
