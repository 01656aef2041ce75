"""Tells where a text that is still growing could be about to say one of some words.

Stop strings and the marks of thinking and tool calls come in pieces; only what could become one is held back.
"""

from collections.abc import Iterable


class Words:
    """Some words to look out for."""

    __slots__ = ("_first", "_longest", "words")

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._longest = max(map(len, self.words), default=0)
        self._first = frozenset(word[0] for word in self.words)

    def first_in(self, text: str) -> tuple[int, str] | None:
        """Return where the first of the words begins, and which; of two that begin together the longer one."""
        best: tuple[int, int, str] | None = None
        for word in self.words:
            at = text.find(word)
            if at >= 0 and (best is None or (at, -len(word)) < best[:2]):
                best = at, -len(word), word
        return None if best is None else (best[0], best[2])

    def certain(self, text: str) -> int:
        """Return how much of the text is certain: behind it stands what could be the beginning of a word."""
        first, words, start = self._first, self.words, max(0, len(text) - self._longest + 1)
        for character in first:
            if text.find(character, start) >= 0:
                break
        else:
            return len(text)
        for at in range(start, len(text)):
            if text[at] in first:
                rest = text[at:]
                for word in words:
                    if word.startswith(rest):
                        return at
        return len(text)
