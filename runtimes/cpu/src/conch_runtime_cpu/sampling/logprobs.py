"""Log probabilities of logits, with the most likely alternatives when they are asked for."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch_runtime_cpu.sampling.top_k_top_p import narrow

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LogprobRows:
    """One row for each token: its log probability, and the `n` most likely ids with theirs, most likely first."""

    chosen: Floats
    """[rows]"""
    top_ids: Integers
    """[rows, n]"""
    top_logprobs: Floats
    """[rows, n]"""
    ranks: Integers
    """[rows]; 1 where no id is likelier."""


def log_probabilities(logits: Floats, tokens: Integers, alternatives: int) -> LogprobRows:
    """Return the log probability of one token in each row of logits."""
    rows = np.arange(len(tokens))
    shift = logits.max(axis=1)
    normaliser = shift + np.log(np.exp(logits - shift[:, None]).sum(axis=1))
    chosen = logits[rows, tokens] - normaliser
    top_ids = _most_likely(logits, min(alternatives, logits.shape[1]))
    top_logprobs = np.take_along_axis(logits, top_ids, axis=1) - normaliser[:, None]
    ranks = (logits > logits[rows, tokens][:, None]).sum(axis=1) + 1
    return LogprobRows(chosen, top_ids, top_logprobs, ranks)


def named_log_probabilities(logits: Floats, ids: list[int]) -> list[float]:
    """Return the log probabilities of these ids in one row of logits."""
    shift = logits.max()
    found: list[float] = (logits[ids] - shift - np.log(np.exp(logits - shift).sum())).tolist()
    return found


def within_nucleus(logits: Floats, top_p: Floats) -> NDArray[np.bool_]:
    """Tell which ids are among the likeliest of those that make up `top_p`, row by row."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    kept: NDArray[np.bool_] = narrow(weights, np.zeros(len(logits), np.int64), top_p) > 0
    return kept


def _most_likely(logits: Floats, count: int) -> Integers:
    if not count:
        return np.empty((len(logits), 0), np.int64)
    last = logits.shape[1] - count
    ids = np.argpartition(logits, last, axis=1)[:, last:]
    ids.sort(axis=1)  # so that of equally likely ids the lower comes first
    order = np.argsort(-np.take_along_axis(logits, ids, axis=1), axis=1, kind="stable")
    return np.take_along_axis(ids, order, axis=1).astype(np.int64)
