"""Writes the typed events of a stream; each carries its number."""

import orjson

from conch_llm_worker.bodies.logprobs import Json


class EventWriter:
    """The events of one stream, in order."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def write(self, kind: str, fields: dict[str, Json]) -> bytes:
        """Return the next event with these fields."""
        return self.raw(kind.encode(), orjson.dumps(fields)[1:-1])

    def raw(self, kind: bytes, members: bytes) -> bytes:
        """Return the next event; `members` are its fields as JSON, without the braces."""
        number = self._next
        self._next += 1
        return b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n' % (kind, kind, number, members)
