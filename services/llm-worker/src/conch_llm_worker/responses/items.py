"""The items of an answer's output while they grow: each knows its JSON, and the events that tell of it. Pure."""

from collections.abc import Sequence
from typing import Protocol

import orjson

from conch_llm_worker.generation import TokenEntry
from conch_llm_worker.logprobs import Json, response_logprobs
from conch_llm_worker.responses.events import EventWriter
from conch_llm_worker.vocabulary import Vocabulary

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


class MessageItem:
    """The text of an answer, in one part."""

    def __init__(self, item_id: str, output_index: int, vocabulary: Vocabulary, *, logprobs: bool) -> None:
        self._id = item_id
        self._index = output_index
        self._vocabulary = vocabulary
        self._logprobs = logprobs
        self._parts: list[str] = []
        self._entries: list[TokenEntry] = []
        self._place: dict[str, Json] = {"item_id": item_id, "output_index": output_index, "content_index": 0}
        self._delta = orjson.dumps(self._place)[1:-1] + b',"delta":'

    def add(self, text: str, entries: Sequence[TokenEntry]) -> None:
        """Append what one step brought."""
        self._parts.append(text)
        self._entries.extend(entries)

    def delta(self, events: EventWriter, text: str, entries: Sequence[TokenEntry]) -> bytes:
        """Return the event of what one step brought."""
        shown = orjson.dumps(response_logprobs(entries, self._vocabulary)) if self._logprobs else b"[]"
        return events.raw(_TEXT_DELTA, self._delta + orjson.dumps(text) + b',"logprobs":' + shown)

    def opened(self, events: EventWriter) -> bytes:
        """Announce the message and its part."""
        empty: dict[str, Json] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        item = {**self.json("in_progress"), "content": []}
        added = events.write("response.output_item.added", {"output_index": self._index, "item": item})
        return added + events.write("response.content_part.added", {**self._place, "part": empty})

    def closed(self, events: EventWriter, status: str) -> bytes:
        """Complete the text, its part, and the message."""
        part, item = self._part(), self.json(status)
        text = {**self._place, "text": part["text"], "logprobs": part["logprobs"]}
        return (
            events.write("response.output_text.done", text)
            + events.write("response.content_part.done", {**self._place, "part": part})
            + events.write("response.output_item.done", {"output_index": self._index, "item": item})
        )

    def json(self, status: str) -> dict[str, Json]:
        """Return the message with all its text so far."""
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [self._part()],
        }

    def _part(self) -> dict[str, Json]:
        logprobs = response_logprobs(self._entries, self._vocabulary) if self._logprobs else []
        return {"type": "output_text", "text": "".join(self._parts), "annotations": [], "logprobs": logprobs}


class ReasoningItem:
    """What the model thinks before it answers, in one part; nothing summarises it."""

    def __init__(self, item_id: str, output_index: int) -> None:
        self._id = item_id
        self._index = output_index
        self._parts: list[str] = []
        self._place: dict[str, Json] = {"item_id": item_id, "output_index": output_index, "content_index": 0}
        self._delta = orjson.dumps(self._place)[1:-1] + b',"delta":'

    def add(self, text: str) -> None:
        """Append a piece."""
        self._parts.append(text)

    def delta(self, events: EventWriter, text: str) -> bytes:
        """Return the event of a piece."""
        return events.raw(_REASONING_DELTA, self._delta + orjson.dumps(text))

    def opened(self, events: EventWriter) -> bytes:
        """Announce the item and its part."""
        item = {**self.json("in_progress"), "content": []}
        added = events.write("response.output_item.added", {"output_index": self._index, "item": item})
        part: dict[str, Json] = {"type": "reasoning_text", "text": ""}
        return added + events.write("response.content_part.added", {**self._place, "part": part})

    def closed(self, events: EventWriter, status: str) -> bytes:
        """Complete the text, its part, and the item."""
        part = self._part()
        return (
            events.write("response.reasoning_text.done", {**self._place, "text": part["text"]})
            + events.write("response.content_part.done", {**self._place, "part": part})
            + events.write("response.output_item.done", {"output_index": self._index, "item": self.json(status)})
        )

    def json(self, status: str) -> dict[str, Json]:
        """Return the item with all its text so far."""
        return {"id": self._id, "type": "reasoning", "status": status, "summary": [], "content": [self._part()]}

    def _part(self) -> dict[str, Json]:
        return {"type": "reasoning_text", "text": "".join(self._parts)}


class CallItem:
    """A call of a function."""

    def __init__(self, item_id: str, output_index: int, call_id: str, name: str) -> None:
        self._id = item_id
        self._index = output_index
        self._call_id = call_id
        self._name = name
        self._parts: list[str] = []
        self._place: dict[str, Json] = {"item_id": item_id, "output_index": output_index}
        self._delta = orjson.dumps(self._place)[1:-1] + b',"delta":'

    def add(self, text: str) -> None:
        """Append a piece of the arguments."""
        self._parts.append(text)

    def delta(self, events: EventWriter, text: str) -> bytes:
        """Return the event of a piece."""
        return events.raw(_ARGUMENTS_DELTA, self._delta + orjson.dumps(text))

    def opened(self, events: EventWriter) -> bytes:
        """Announce the call."""
        added: dict[str, Json] = {"output_index": self._index, "item": self.json("in_progress")}
        return events.write("response.output_item.added", added)

    def closed(self, events: EventWriter, status: str) -> bytes:
        """Complete the arguments and the call."""
        item = self.json(status)
        arguments = {**self._place, "name": self._name, "arguments": item["arguments"]}
        done: dict[str, Json] = {"output_index": self._index, "item": item}
        return events.write("response.function_call_arguments.done", arguments) + events.write(
            "response.output_item.done", done
        )

    def json(self, status: str) -> dict[str, Json]:
        """Return the call with all its arguments so far."""
        return {
            "id": self._id,
            "type": "function_call",
            "status": status,
            "call_id": self._call_id,
            "name": self._name,
            "arguments": "".join(self._parts),
        }
