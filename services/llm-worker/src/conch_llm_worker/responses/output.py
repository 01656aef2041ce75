"""The whole output of one answer: opens the item that the next piece belongs to, and closes the one before. Pure."""

from conch_contracts.generation import GenerateRequest
from conch_llm_worker.generation import Step
from conch_llm_worker.logprobs import Json
from conch_llm_worker.responses.events import EventWriter
from conch_llm_worker.responses.items import Item, MessageItem
from conch_llm_worker.vocabulary import Vocabulary


class Output:
    """Collects items; with a writer every change is told as events."""

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary, events: EventWriter | None = None) -> None:
        self.items: list[Json] = []
        """Those that are complete."""
        self._stem = request.response_id.partition("_")[2]
        self._logprobs = request.logprobs
        self._vocabulary = vocabulary
        self._events = events
        self._open: Item | None = None

    def add(self, step: Step) -> bytes:
        """Take what one step brought, and return the events that tell of it."""
        if not step.text and not step.entries:
            return b""
        body = b""
        message = self._open
        if not isinstance(message, MessageItem):
            message = self._message()
            body = self._begin(message)
        message.add(step.text, step.entries)
        if self._events is not None:
            body += message.delta(self._events, step.text, step.entries)
        return body

    def end(self, status: str) -> bytes:
        """Close what is open; an answer without any text is an empty message."""
        body = b"" if self.items or self._open is not None else self._begin(self._message())
        return body + self._close(status)

    def broken(self) -> list[Json]:
        """Return the items of an answer that ends here and now."""
        return [*self.items, *([] if self._open is None else [self._open.json("incomplete")])]

    def _begin(self, item: Item) -> bytes:
        body = self._close("completed")
        self._open = item
        return body if self._events is None else body + item.opened(self._events)

    def _close(self, status: str) -> bytes:
        item, self._open = self._open, None
        if item is None:
            return b""
        self.items.append(item.json(status))
        return b"" if self._events is None else item.closed(self._events, status)

    def _message(self) -> MessageItem:
        index = len(self.items) + (self._open is not None)
        return MessageItem(f"msg_{self._stem}{index:02x}", index, self._vocabulary, logprobs=self._logprobs)
