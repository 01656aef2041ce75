"""The content of one message: opens the block that the next piece belongs to, and closes the one before. Pure.

A call of a tool becomes a block when it is complete: what looked like one and is none is text, and a client that has
seen a block of it could not take that back. One that the answer's limit cut is no block.
"""

from collections.abc import Callable
from typing import Any, assert_never

import orjson

from conch_llm_worker.generation.choice_update import ChoiceUpdate
from conch_llm_worker.parsing.answer_events import (
    CallArguments,
    CallBegin,
    CallBroken,
    CallEnd,
    Content,
    Event,
    Reasoning,
)

Block = dict[str, Any]
"""A block as JSON; the input of a call stands in it as the model wrote it."""
EventWriter = Callable[[str, Block], bytes]
"""Returns an event with this name and these fields."""


def event(kind: str, fields: Block) -> bytes:
    """Return one event of a stream."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))


class MessageContent:
    """Collects blocks; every change is also the events of it."""

    def __init__(self, signature: str, write: EventWriter = event, *, thinking_shown: bool = True) -> None:
        """Begin without a block; blocks of thinking have an empty text where it is not shown."""
        self.blocks: list[Block] = []
        """The last of them may still grow."""
        self._signature = signature
        self._thinking_shown = thinking_shown
        self._write = write
        self._open: str | None = None
        self._parts: list[str] = []
        self._call: tuple[str, str, list[str]] | None = None

    def add(self, update: ChoiceUpdate) -> bytes:
        """Take one update and return its events."""
        body = b"".join(map(self._take, update.events))
        return body + self._text(update.text) if update.text else body

    def end(self) -> bytes:
        """Close what is open; an answer without anything is an empty text."""
        body = self._close()
        return body if self.blocks else body + self._begin("text", {"type": "text", "text": ""}) + self._close()

    def _take(self, found: Event) -> bytes:
        match found:
            case Content(text):
                return self._text(text)
            case Reasoning(text):
                return self._thinking(text)
            case CallBegin(_, call_id, name):
                self._call = call_id, name, []
            case CallArguments(_, text):
                if self._call is not None:
                    self._call[2].append(text)
            case CallEnd():
                return self._tool_use()
            case CallBroken(_, raw):
                self._call = None
                return self._text(raw)
            case _:
                assert_never(found)
        return b""

    def _thinking(self, text: str) -> bytes:
        if not self._thinking_shown and self._open == "thinking":
            return b""
        shown = text if self._thinking_shown else ""
        return self._grow("thinking", shown, {"type": "thinking", "thinking": "", "signature": ""})

    def _text(self, text: str) -> bytes:
        return self._grow("text", text, {"type": "text", "text": ""})

    def _grow(self, kind: str, text: str, empty: Block) -> bytes:
        """Add to the open block, or to a new one."""
        body = b"" if self._open == kind else self._begin(kind, empty)
        self._parts.append(text)
        return body + self._delta({"type": f"{kind}_delta", kind: text})

    def _tool_use(self) -> bytes:
        if self._call is None:
            return b""
        call_id, name, parts = self._call
        self._call = None
        text = "".join(parts)
        block: Block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        body = self._begin("tool_use", block) + self._delta({"type": "input_json_delta", "partial_json": text})
        block["input"] = orjson.Fragment(text)  # as it was written: JSON's numbers are larger than any parser's
        return body + self._close()

    def _begin(self, kind: str, empty: Block) -> bytes:
        body = self._close()
        self._open = kind
        self.blocks.append(empty)
        return body + self._write("content_block_start", {"index": len(self.blocks) - 1, "content_block": empty})

    def _delta(self, delta: Block) -> bytes:
        return self._write("content_block_delta", {"index": len(self.blocks) - 1, "delta": delta})

    def _close(self) -> bytes:
        kind, self._open = self._open, None
        if kind is None:
            return b""
        body, block, text = b"", self.blocks[-1], "".join(self._parts)
        self._parts.clear()
        if kind == "thinking":
            block["signature"] = self._signature
            body = self._delta({"type": "signature_delta", "signature": self._signature})
        if kind != "tool_use":
            block[kind] = text
        return body + self._write("content_block_stop", {"index": len(self.blocks) - 1})
