"""Finds stop strings in text that comes in pieces, and holds back only what could still become one.

The earliest end wins, and of two that end together the longer one, so the result does not depend on how the text was
cut into pieces. The caller feeds the text of one token at a time, which keeps the count of tokens exact.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Scan(NamedTuple):
    """What one piece of text gave."""

    text: str
    """Text that may go out."""
    stop: str | None
    """The stop string that ended the text, if one did."""


class StopScanner:
    """Watches one text for stop strings."""

    __slots__ = ("_first", "_held", "_include", "_longest", "_stops")

    def __init__(self, stops: Sequence[str], *, include: bool) -> None:
        """Watch for `stops`; with `include` the one found stays in the text."""
        self._stops = tuple(stop for stop in stops if stop)
        self._include = include
        self._longest = max(map(len, self._stops), default=0)
        self._first = frozenset(stop[0] for stop in self._stops)
        self._held = ""

    def feed(self, piece: str) -> Scan:
        """Take the next piece and return what is certain now."""
        text = self._held + piece
        found = self._find(text)
        if found is not None:
            start, stop = found
            self._held = ""
            return Scan(text[: start + len(stop)] if self._include else text[:start], stop)
        safe = self._safe_length(text)
        self._held = text[safe:]
        return Scan(text[:safe], None)

    def flush(self) -> str:
        """Return what was held back, when no more text comes."""
        held, self._held = self._held, ""
        return held

    def _find(self, text: str) -> tuple[int, str] | None:
        best: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = text.find(stop)
            if start >= 0:
                candidate = (start + len(stop), start, stop)
                best = candidate if best is None else min(best, candidate)
        return None if best is None else (best[1], best[2])

    def _safe_length(self, text: str) -> int:
        """Return where the longest suffix begins that could be the start of a stop string."""
        first, stops = self._first, self._stops
        for at in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[at] in first:
                suffix = text[at:]
                for stop in stops:
                    if stop.startswith(suffix):
                        return at
        return len(text)
