"""Ends a model's thinking when its tokens are spent: then only the mark that ends it may come next."""

import numpy as np
from numpy.typing import NDArray

from conch_contracts.messages.generation import SamplingParameters, ThinkingLimit
from conch_runtime_cpu.masks.logits_mask import LogitsMask


class ThinkingMask:
    """The mask of one request with a limit, and the mask that holds beside it; see `logits_mask.LogitsMask`."""

    def __init__(self, limit: ThinkingLimit, other: LogitsMask | None = None) -> None:
        self._start = limit.start_id
        self._end = limit.end_id
        self._left = limit.tokens
        self._thinking = limit.opened
        self._over = False
        self._other = other

    def fill(self, allowed: NDArray[np.bool_]) -> None:
        """Set which ids may come next."""
        if self._thinking and self._left <= 0:
            allowed[:] = False
            allowed[self._end] = True
        elif self._other is None:
            allowed[:] = True
        else:
            self._other.fill(allowed)

    def accept(self, token: int) -> None:
        """Take note of the token that was chosen; a model thinks once, at the beginning."""
        if self._thinking:
            self._left -= 1
            if token == self._end:
                self._thinking, self._over = False, True
        elif token == self._start and not self._over:
            self._thinking = True
        if self._other is not None:
            self._other.accept(token)

    @property
    def complete(self) -> bool:
        """Return whether the answer may end here."""
        return self._other is None or self._other.complete

    @property
    def finished(self) -> bool:
        """Return whether the answer must end here."""
        return self._other is not None and self._other.finished

    @property
    def fault(self) -> str:
        """Return why the other mask cannot go on."""
        return "" if self._other is None else self._other.fault


def thinking_mask(sampling: SamplingParameters, other: LogitsMask | None = None) -> LogitsMask | None:
    """Return what keeps a request to its limit of thinking, beside another mask; the other alone without a limit."""
    return other if sampling.thinking is None else ThinkingMask(sampling.thinking, other)
