"""What a constraint on one request's tokens must be able to do; `grammar_mask` and `thinking_mask` are the two."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class LogitsMask(Protocol):
    """Says before each token which ids are allowed, and is told which one was chosen."""

    def fill(self, allowed: NDArray[np.bool_]) -> None:
        """Set every entry of a row as long as the vocabulary: whether that id may come next.

        A row without any allowed id ends the request: with a stop if the answer is complete, else with `fault`.
        """

    def accept(self, token: int) -> None:
        """Take note of the token that was chosen."""

    @property
    def complete(self) -> bool:
        """Return whether the answer may end here."""

    @property
    def finished(self) -> bool:
        """Return whether the answer must end here."""

    @property
    def fault(self) -> str:
        """Return why the mask cannot go on; empty when it can."""
