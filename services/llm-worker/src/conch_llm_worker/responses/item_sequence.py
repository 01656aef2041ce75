"""The output of one response: opens the item that the next piece belongs to, and closes the one before. Pure."""

from collections.abc import Sequence
from typing import assert_never

from conch_contracts.messages.generation import GenerateRequest
from conch_llm_worker.bodies.logprobs import Json
from conch_llm_worker.generation.choice_update import ChoiceUpdate, TokenEntry
from conch_llm_worker.parsing.answer_events import (
    CallArguments,
    CallBegin,
    CallBroken,
    CallEnd,
    Content,
    Event,
    Reasoning,
)
from conch_llm_worker.responses.event_writer import EventWriter
from conch_llm_worker.responses.output_items import CallOutput, Item, MessageOutput, ReasoningOutput
from conch_llm_worker.text.vocabulary import Vocabulary


class Output:
    """Collects items; with a writer every change also becomes events."""

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary, events: EventWriter | None = None) -> None:
        self.items: list[Json] = []
        """Those that are complete."""
        self._stem = request.response_id.partition("_")[2]
        self._logprobs = request.logprobs
        self._taken_apart = request.parsing is not None
        self._vocabulary = vocabulary
        self._events = events
        self._open: Item | None = None
        self._begun = 0

    def add(self, update: ChoiceUpdate) -> bytes:
        """Take one update and return its events.

        Log probabilities belong to texts: those of an update without one are left out. In an answer that is taken apart
        no text begins with them, since a thought or a call may come next.
        """
        made, entries = list[bytes](), update.entries
        for event in update.events:
            made.append(self._take(event, entries))
            entries = () if isinstance(event, Content) else entries
        begins = not self._taken_apart or isinstance(self._open, MessageOutput)
        if update.text or (entries and not update.events and begins):
            made.append(self._text(update.text, entries))
        return b"".join(made)

    def end(self, status: str) -> bytes:
        """Close what is open; an answer without anything is an empty message."""
        body = b"" if self._begun else self._begin(self._message())
        return body + self._close(status)

    def broken(self) -> list[Json]:
        """Return the items of an answer that ends here and now."""
        return [*self.items, *([] if self._open is None else [self._open.json("incomplete")])]

    def _take(self, event: Event, entries: Sequence[TokenEntry]) -> bytes:
        match event:
            case Content(text):
                return self._text(text, entries)
            case Reasoning(text):
                return self._reasoning(text)
            case CallBegin(_, call_id, name):
                return self._begin(CallOutput(self._id("fc"), self._begun, call_id, name))
            case CallArguments(_, text):
                return self._arguments(text)
            case CallEnd():
                return self._close("completed")
            case CallBroken(_, raw):
                return self._drop() + self._text(raw, ())
            case _:
                assert_never(event)

    def _text(self, text: str, entries: Sequence[TokenEntry]) -> bytes:
        body, item = b"", self._open
        if not isinstance(item, MessageOutput):
            body = self._close("completed")
            item = self._message()
            body += self._begin(item)
        shown = item.add(text, entries)
        return body if self._events is None else body + item.delta(self._events, text, shown)

    def _reasoning(self, text: str) -> bytes:
        body, item = b"", self._open
        if not isinstance(item, ReasoningOutput):
            body = self._close("completed")
            item = ReasoningOutput(self._id("rs"), self._begun)
            body += self._begin(item)
        item.add(text)
        return body if self._events is None else body + item.delta(self._events, text)

    def _arguments(self, text: str) -> bytes:
        item = self._open
        if not isinstance(item, CallOutput):
            return b""
        item.add(text)
        return b"" if self._events is None else item.delta(self._events, text)

    def _begin(self, item: Item) -> bytes:
        body = self._close("completed")
        self._open = item
        self._begun += 1
        return body if self._events is None else body + item.opened(self._events)

    def _close(self, status: str) -> bytes:
        item, self._open = self._open, None
        if item is None:
            return b""
        self.items.append(item.json(status))
        return b"" if self._events is None else item.closed(self._events, status)

    def _drop(self) -> bytes:
        """End a call that turned out to be none: its events have gone out, but it is no part of the answer."""
        body = self._close("incomplete")
        self.items.pop()
        return body

    def _message(self) -> MessageOutput:
        return MessageOutput(self._id("msg"), self._begun, self._vocabulary, logprobs=self._logprobs)

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{self._stem}{self._begun:02x}"
