"""A model that is easy to predict: the next token is the sum of all tokens so far, modulo 100."""

import numpy as np
from numpy.typing import NDArray

from conch_runtime_cpu.engine.decoder import ShownFeatures

VOCABULARY = 100


class SumModel:
    """Keeps the tokens of each row, as the key-value cache does, so that a wrong row or length shows."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.vocabulary = VOCABULARY
        self.logits = np.zeros((slots, VOCABULARY), np.float32)
        self.batches: list[int] = []
        self._rows = np.full((slots, 2000), -1, np.int64)

    def decode(self, tokens: list[int], lengths: list[int]) -> None:
        self.batches.append(len(tokens))
        for row, (token, length) in enumerate(zip(tokens, lengths, strict=True)):
            self._rows[row, length - 1] = token
            self._predict(row, length)

    def prefill(self, row: int, ids: NDArray[np.int64], start: int, shown: ShownFeatures | None = None) -> None:
        self.prefill_keeping_all(row, ids, start, shown)

    def prefill_keeping_all(
        self, row: int, ids: NDArray[np.int64], start: int, shown: ShownFeatures | None = None
    ) -> NDArray[np.float32]:
        predicted = []
        if shown is not None:  # a feature stands for the token that it holds
            ids = np.where(shown.rows >= 0, shown.features[shown.rows, 0], ids).astype(np.int64)
        for position, token in enumerate(ids.tolist(), start):
            self._rows[row, position] = token
            self._predict(row, position + 1)
            predicted.append(self.logits[row].copy())
        return np.array(predicted)

    def move(self, source: int, target: int, length: int) -> None:
        self._rows[target] = -1
        self._rows[target, :length] = self._rows[source, :length]
        self._rows[source] = -1

    def _predict(self, row: int, length: int) -> None:
        tokens = self._rows[row, :length]
        assert (tokens >= 0).all(), "a position was never written"
        self.logits[row] = 0
        self.logits[row, tokens.sum() % VOCABULARY] = 10
