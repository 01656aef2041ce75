"""Draws one token for each row from its logits: temperature, min_p, top_k, top_p. Pure, and vectorised over rows.

The random number of a row is a hash of the request's seed and of how many tokens it has made. So a request gives the
same text whatever else is in its batch, and no generator has to be kept.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Seeds = NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_RANDOM_BITS = 40  # few enough that u < 1 holds after any rounding below
_CANDIDATES = 256
"""Tokens that are sorted at first: nearly always enough, and many times cheaper than sorting the vocabulary."""


@dataclass(frozen=True, slots=True)
class DrawSettings:
    """How to draw; one entry for each row."""

    temperature: Floats
    """Above 0."""
    top_k: Integers
    """0 means off."""
    top_p: Floats
    min_p: Floats


def uniforms(seeds: Seeds, steps: Integers) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each seed and step."""
    mixed = _mix(_mix(seeds) + (steps.astype(np.uint64) + np.uint64(1)) * _GAMMA)
    return (mixed >> np.uint64(64 - _RANDOM_BITS)).astype(np.float64) * 2.0**-_RANDOM_BITS


def draw(logits: Floats, settings: DrawSettings, random: NDArray[np.float64]) -> Integers:
    """Return one token for each row of logits, by inversion of the distribution that the settings leave."""
    with np.errstate(over="ignore"):
        scaled = (logits - logits.max(axis=1, keepdims=True)) / settings.temperature[:, None]
    weights = np.exp(scaled)  # the most likely token has weight 1
    if settings.min_p.any():
        weights[weights < settings.min_p[:, None]] = 0
    narrowed = np.flatnonzero((settings.top_k > 0) | (settings.top_p < 1))
    if narrowed.size:
        weights[narrowed] = narrow(weights[narrowed], settings.top_k[narrowed], settings.top_p[narrowed])
    cumulated = np.cumsum(weights, axis=1, dtype=np.float64)
    chosen: Integers = (cumulated > (random * cumulated[:, -1])[:, None]).argmax(axis=1)
    return chosen


def narrow(weights: Floats, top_k: Integers, top_p: Floats) -> Floats:
    """Zero what is not among the `top_k` heaviest, nor among the heaviest of those that make up `top_p`."""
    vocabulary = weights.shape[1]
    limit = np.where(top_k > 0, np.minimum(top_k, vocabulary), vocabulary)
    thresholds, known = _thresholds(weights, limit, top_p, min(_CANDIDATES, vocabulary))
    if not known.all():
        rest = ~known
        thresholds[rest], _ = _thresholds(weights[rest], limit[rest], top_p[rest], vocabulary)
    return np.where(weights >= thresholds[:, None], weights, np.float32(0))


def _thresholds(weights: Floats, limit: Integers, top_p: Floats, candidates: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the least weight that each row keeps, looking at its heaviest only, and whether those were enough."""
    rows, vocabulary = weights.shape
    if candidates < vocabulary:
        heaviest = np.sort(np.partition(weights, vocabulary - candidates, axis=1)[:, -candidates:], axis=1)[:, ::-1]
    else:
        heaviest = np.sort(weights, axis=1)[:, ::-1]
    cumulated = np.cumsum(np.where(np.arange(candidates) < limit[:, None], heaviest, 0), axis=1, dtype=np.float64)
    total = np.where(limit <= candidates, cumulated[:, -1], weights.sum(axis=1, dtype=np.float64))
    enough = cumulated >= (top_p * total)[:, None]
    last = np.where(top_p < 1, enough.argmax(axis=1), candidates - 1)
    thresholds = heaviest[np.arange(rows), np.minimum(last, limit - 1)]
    return thresholds, (limit <= candidates) | ((top_p < 1) & enough[:, -1])


def _mix(value: Seeds) -> Seeds:
    # The finaliser of SplitMix64; unsigned arrays wrap around silently.
    value = (value ^ (value >> np.uint64(30))) * _MIX_1
    value = (value ^ (value >> np.uint64(27))) * _MIX_2
    return value ^ (value >> np.uint64(31))
