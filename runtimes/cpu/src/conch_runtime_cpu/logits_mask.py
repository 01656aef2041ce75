"""The hook for grammars: what a constraint on one request's tokens must be able to do."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class LogitsMask(Protocol):
    """Says before each token which ids are allowed, and is told which one was chosen."""

    def fill(self, allowed: NDArray[np.bool_]) -> None:
        """Set every entry of a row as long as the vocabulary: whether that id may come next.

        A complete answer must allow an ending id; a row without any allowed id fails the request.
        """

    def accept(self, token: int) -> None:
        """Take note of the token that was chosen."""
