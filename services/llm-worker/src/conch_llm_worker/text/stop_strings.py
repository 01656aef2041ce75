"""Finds stop strings in text that comes in pieces, and holds back only what could still become one.

The earliest end wins, and of two that end together the longer one, so the result does not depend on how the text was
cut into pieces. The caller feeds the text of one token at a time, which keeps the count of tokens exact.
"""

from collections.abc import Sequence
from typing import NamedTuple

from conch_llm_worker.text.partial_words import Words


class Scan(NamedTuple):
    """What one piece of text gave."""

    text: str
    """Text that may go out."""
    stop: str | None
    """The stop string that ended the text, if one did."""


class StopScanner:
    """Watches one text for stop strings."""

    __slots__ = ("_held", "_include", "_stops")

    def __init__(self, stops: Sequence[str], *, include: bool) -> None:
        """Watch for `stops`; with `include` the one found stays in the text."""
        self._stops = Words(filter(None, stops))
        self._include = include
        self._held = ""

    def feed(self, piece: str) -> Scan:
        """Take the next piece and return what is certain now."""
        text = self._held + piece
        found = self._find(text)
        if found is not None:
            start, stop = found
            self._held = ""
            return Scan(text[: start + len(stop)] if self._include else text[:start], stop)
        safe = self._stops.certain(text)
        self._held = text[safe:]
        return Scan(text[:safe], None)

    def flush(self) -> str:
        """Return what was held back, when no more text comes."""
        held, self._held = self._held, ""
        return held

    def _find(self, text: str) -> tuple[int, str] | None:
        best: tuple[int, int, str] | None = None
        for stop in self._stops.words:
            start = text.find(stop)
            if start >= 0:
                candidate = (start + len(stop), start, stop)
                best = candidate if best is None else min(best, candidate)
        return None if best is None else (best[1], best[2])
