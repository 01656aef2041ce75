"""Pure: from an encoder's numbers to vectors, scores and similarities."""

import math
from collections.abc import Sequence
from typing import assert_never

import numpy as np

from conch_contracts.records import Activation, Pooling
from conch_embed_worker.batch_tensors import Numbers

_SHORTEST = float(np.finfo(np.float32).tiny)
"""Below any length that a vector can have, but for one that is all zeros."""


def pool(hidden: Numbers, lengths: Sequence[int], pooling: Pooling) -> Numbers:
    """Return one vector for each row; numbers that are one vector for each row already stay as they are."""
    if hidden.ndim == 2:
        return hidden
    match pooling:
        case Pooling.CLS:
            first: Numbers = hidden[:, 0]
            return first
        case Pooling.LAST:
            last: Numbers = hidden[np.arange(len(lengths)), np.asarray(lengths) - 1]
            return last
        case Pooling.MEAN:
            return _means(hidden, lengths)
        case _:
            assert_never(pooling)


def _means(hidden: Numbers, lengths: Sequence[int]) -> Numbers:
    width = hidden.shape[1]
    if min(lengths) == width:
        whole: Numbers = np.add.reduce(hidden, axis=1) / np.float32(width)
        return whole
    counts = np.array(lengths, np.float32)[:, np.newaxis]
    mask = np.arange(width)[np.newaxis, :] < counts
    means: Numbers = np.einsum("bsh,bs->bh", hidden, mask.astype(np.float32)) / counts
    return means


def shorten(vectors: Numbers, dimensions: int | None) -> Numbers:
    """Keep the first numbers of each vector."""
    return vectors if dimensions is None else vectors[..., :dimensions]


def normalize(vectors: Numbers) -> Numbers:
    """Return the vectors with length 1; one that is all zeros stays so."""
    if vectors.ndim == 1:  # the answer to a single text, which waits for each call of numpy
        unit: Numbers = vectors / max(math.sqrt(vectors.dot(vectors)), _SHORTEST)
        return unit
    lengths = np.sqrt(np.einsum("...i,...i->...", vectors, vectors))[..., np.newaxis]
    scaled: Numbers = vectors / np.maximum(lengths, _SHORTEST)
    return scaled


def finite(numbers: Numbers) -> bool:
    """Return whether all numbers are finite; of a vector its square says so, unless it is too large itself."""
    square = numbers.dot(numbers) if numbers.ndim == 1 else math.nan
    return math.isfinite(square) or bool(np.isfinite(numbers).all())


def activate(logits: Numbers, activation: Activation) -> Numbers:
    """Return scores or probabilities."""
    match activation:
        case Activation.NONE:
            return logits
        case Activation.SIGMOID:
            tamed = np.clip(logits, -60, 60).astype(np.float64)
            return (1 / (1 + np.exp(-tamed))).astype(np.float32)
        case Activation.SOFTMAX:
            powers = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
            shares: Numbers = (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
            return shares
        case _:
            assert_never(activation)


def similarities(vectors: Numbers, firsts: int) -> Numbers:
    """Return the cosine of each of the first vectors and its partner; a single first one goes with each."""
    unit = normalize(vectors)
    cosines: Numbers = np.sum(unit[:firsts] * unit[firsts:], axis=-1)
    return cosines
