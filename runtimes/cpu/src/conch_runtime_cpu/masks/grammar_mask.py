"""Keeps one answer to its grammar: llguidance says which ids may come next.

A request ends at the ids that it names itself, whatever the tokenizer calls its end: those are allowed where the
grammar is satisfied, and nowhere else.
"""

from collections.abc import Sequence

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray


class GrammarMask:
    """The mask of one request; see `logits_mask.LogitsMask`."""

    def __init__(self, matcher: LLMatcher, *, endings: Sequence[int], silent: Sequence[int]) -> None:
        """Begin an answer.

        `endings` are the ids that end the request; `silent` those that the tokenizer or the model takes for an end.
        """
        self._matcher = matcher
        self._endings = np.array(endings, np.int64)
        self._silent = np.array([id_ for id_ in silent if id_ not in endings], np.int64)
        self._ends = frozenset(endings)

    def fill(self, allowed: NDArray[np.bool_]) -> None:
        """Set which ids may come next."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            allowed[:] = False
            return
        allowed[:] = np.unpackbits(bits, count=len(allowed), bitorder="little")
        allowed[self._silent] = False
        allowed[self._endings] |= self._matcher.is_accepting()

    def accept(self, token: int) -> None:
        """Take note of the token that was chosen."""
        if token not in self._ends:
            self._matcher.consume_token(token)

    @property
    def complete(self) -> bool:
        """Return whether the grammar is satisfied."""
        return not self._matcher.is_error() and self._matcher.is_accepting()

    @property
    def finished(self) -> bool:
        """Return whether the grammar is satisfied and allows nothing more."""
        return self._matcher.is_stopped() and self.complete

    @property
    def fault(self) -> str:
        """Return why the grammar cannot be obeyed any longer."""
        return self._matcher.get_error().strip().partition("\n")[0]
