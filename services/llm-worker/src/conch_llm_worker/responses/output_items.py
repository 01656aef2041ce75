"""The items of a response's output while they grow: each makes its JSON, and the events of its growth. Pure."""

from collections.abc import Sequence
from typing import Any, Protocol

import orjson

from conch_llm_worker.bodies.logprobs import Json, response_logprobs
from conch_llm_worker.generation.choice_update import TokenEntry
from conch_llm_worker.responses.event_writer import EventWriter
from conch_llm_worker.text.vocabulary import Vocabulary

_TEXT_DELTA = b"response.output_text.delta"
_REASONING_DELTA = b"response.reasoning_text.delta"
_ARGUMENTS_DELTA = b"response.function_call_arguments.delta"


class Item(Protocol):
    """One item of the output."""

    def opened(self, events: EventWriter) -> bytes:
        """Return the events that announce the item."""
        ...

    def closed(self, events: EventWriter, status: str) -> bytes:
        """Return the events that complete the item."""
        ...

    def json(self, status: str) -> dict[str, Json]:
        """Return the item as it is now."""
        ...


class ItemEvents:
    """Makes the events of one item and its one part, which all say where in the output these stand."""

    def __init__(self, item_id: str, output_index: int, content_index: int | None = None) -> None:
        self.item_id = item_id
        self._index = output_index
        part: dict[str, Json] = {} if content_index is None else {"content_index": content_index}
        self.fields: dict[str, Json] = {"item_id": item_id, "output_index": output_index, **part}
        self._delta = orjson.dumps(self.fields)[1:-1] + b',"delta":'

    def delta(self, events: EventWriter, name: bytes, text: str, more: bytes = b"") -> bytes:
        """Return the event of a piece of the part's text; `more` is JSON that follows it."""
        return events.raw(name, self._delta + orjson.dumps(text) + more)

    def item(self, events: EventWriter, what: str, item: dict[str, Json]) -> bytes:
        """Return the event that says that the item was added or is done."""
        return events.write(f"response.output_item.{what}", {"output_index": self._index, "item": item})

    def part(self, events: EventWriter, what: str, part: dict[str, Json]) -> bytes:
        """Return the event that says that the item's part was added or is done."""
        return events.write(f"response.content_part.{what}", {**self.fields, "part": part})


class MessageOutput:
    """The text of an answer, in one part."""

    def __init__(self, item_id: str, output_index: int, vocabulary: Vocabulary, *, logprobs: bool) -> None:
        self._item_events = ItemEvents(item_id, output_index, 0)
        self._vocabulary = vocabulary
        self._logprobs = logprobs
        self._parts: list[str] = []
        self._shown: list[bytes] = []
        """Rows of log probabilities as JSON, which take a tenth of the objects' memory."""

    def add(self, text: str, entries: Sequence[TokenEntry]) -> bytes:
        """Append one update; return its log probabilities as they are shown, without the brackets around them."""
        self._parts.append(text)
        if not self._logprobs or not entries:
            return b""
        self._shown.append(orjson.dumps(response_logprobs(entries, self._vocabulary))[1:-1])
        return self._shown[-1]

    def delta(self, events: EventWriter, text: str, shown: bytes) -> bytes:
        """Return the event of one update."""
        return self._item_events.delta(events, _TEXT_DELTA, text, b',"logprobs":[%b]' % shown)

    def opened(self, events: EventWriter) -> bytes:
        """Announce the message and its part."""
        empty: dict[str, Json] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        item = {**self.json("in_progress"), "content": []}
        return self._item_events.item(events, "added", item) + self._item_events.part(events, "added", empty)

    def closed(self, events: EventWriter, status: str) -> bytes:
        """Complete the text, its part, and the message."""
        part, item = self._part(), self.json(status)
        text = {**self._item_events.fields, "text": part["text"], "logprobs": part["logprobs"]}
        done = events.write("response.output_text.done", text)
        return done + self._item_events.part(events, "done", part) + self._item_events.item(events, "done", item)

    def json(self, status: str) -> dict[str, Json]:
        """Return the message with all its text so far."""
        return {
            "id": self._item_events.item_id,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [self._part()],
        }

    def _part(self) -> dict[str, Any]:
        logprobs = orjson.Fragment(b"[%b]" % b",".join(self._shown))
        return {"type": "output_text", "text": "".join(self._parts), "annotations": [], "logprobs": logprobs}


class ReasoningOutput:
    """What the model thinks before it answers, in one part; nothing summarises it."""

    def __init__(self, item_id: str, output_index: int) -> None:
        self._item_events = ItemEvents(item_id, output_index, 0)
        self._parts: list[str] = []

    def add(self, text: str) -> None:
        """Append a piece."""
        self._parts.append(text)

    def delta(self, events: EventWriter, text: str) -> bytes:
        """Return the event of a piece."""
        return self._item_events.delta(events, _REASONING_DELTA, text)

    def opened(self, events: EventWriter) -> bytes:
        """Announce the item and its part."""
        item = {**self.json("in_progress"), "content": []}
        part: dict[str, Json] = {"type": "reasoning_text", "text": ""}
        return self._item_events.item(events, "added", item) + self._item_events.part(events, "added", part)

    def closed(self, events: EventWriter, status: str) -> bytes:
        """Complete the text, its part, and the item."""
        part, item = self._part(), self.json(status)
        done = events.write("response.reasoning_text.done", {**self._item_events.fields, "text": part["text"]})
        return done + self._item_events.part(events, "done", part) + self._item_events.item(events, "done", item)

    def json(self, status: str) -> dict[str, Json]:
        """Return the item with all its text so far."""
        return {
            "id": self._item_events.item_id,
            "type": "reasoning",
            "status": status,
            "summary": [],
            "content": [self._part()],
        }

    def _part(self) -> dict[str, Json]:
        return {"type": "reasoning_text", "text": "".join(self._parts)}


class CallOutput:
    """A call of a function."""

    def __init__(self, item_id: str, output_index: int, call_id: str, name: str) -> None:
        self._item_events = ItemEvents(item_id, output_index)
        self._call_id = call_id
        self._name = name
        self._parts: list[str] = []

    def add(self, text: str) -> None:
        """Append a piece of the arguments."""
        self._parts.append(text)

    def delta(self, events: EventWriter, text: str) -> bytes:
        """Return the event of a piece."""
        return self._item_events.delta(events, _ARGUMENTS_DELTA, text)

    def opened(self, events: EventWriter) -> bytes:
        """Announce the call."""
        return self._item_events.item(events, "added", self.json("in_progress"))

    def closed(self, events: EventWriter, status: str) -> bytes:
        """Complete the arguments and the call."""
        item = self.json(status)
        arguments = {**self._item_events.fields, "name": self._name, "arguments": item["arguments"]}
        done = events.write("response.function_call_arguments.done", arguments)
        return done + self._item_events.item(events, "done", item)

    def json(self, status: str) -> dict[str, Json]:
        """Return the call with all its arguments so far."""
        return {
            "id": self._item_events.item_id,
            "type": "function_call",
            "status": status,
            "call_id": self._call_id,
            "name": self._name,
            "arguments": "".join(self._parts),
        }
