"""Finds when each id of an answer is said, from how the decoder's alignment heads look at the sound while it writes.

As OpenAI's `find_alignment` does: the heads' attention is normalised over the ids, smoothed over time and averaged; the
cheapest way through it that goes back in neither is how ids and sound run beside each other. Pure.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from conch_contracts.dialects.speech import SECONDS_PER_TIME_ID

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
_DIAGONAL, _NEXT_ID, _NEXT_FRAME = 0, 1, 2


def boundary_times(scores: Floats, lead: int, texts: int, filter_width: int) -> Floats:
    """Return the second at which each id of a text begins and, last, at which the text ends.

    `scores` is [heads, ids, frames], before softmax: of `lead` ids that come before the text, at least one, of those of
    the text, and of what follows it.
    """
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    spread = weights.std(axis=1, keepdims=True)
    weights = (weights - weights.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, np.float32(1))
    matrix = median_filter(weights, filter_width).mean(axis=0)[lead - 1 : lead + texts]
    ids, frames = cheapest_way(-matrix)
    begins = np.diff(ids, prepend=-1) > 0
    times: Floats = (frames[begins] * SECONDS_PER_TIME_ID).astype(np.float32)
    return times


def times_of_answer(made: Sequence[int], first_time_id: int, boundaries: Floats) -> Floats:
    """Spread the times of an answer's text over all its ids: one that stands for a time lasts no time."""
    is_text = np.array([token < first_time_id for token in made], np.int64)
    texts_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_text)])
    times: Floats = boundaries[texts_before]
    return times


def median_filter(values: Floats, width: int) -> Floats:
    """Return the median of each value's neighbourhood along the last axis, mirrored at its ends."""
    half = width // 2
    if values.shape[-1] <= half:
        return values
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(half, half)], mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, width, axis=-1)
    median: Floats = np.partition(windows, half, axis=-1)[..., half]
    return median


def cheapest_way(costs: Floats) -> tuple[Integers, Integers]:
    """Return the rows and columns of the cheapest way from corner to corner, each step to the next of one or both.

    Dynamic time warping. Cells of one antidiagonal depend on the two before it only, so each is computed at once.
    """
    rows, columns = costs.shape
    steps = np.zeros((rows, columns), np.int8)
    before = np.full(rows + 1, np.inf, np.float32)  # of the antidiagonal before the last, by row; one row in front
    last = before.copy()
    before[0] = 0.0
    for diagonal in range(rows + columns - 1):
        low, high = max(0, diagonal - columns + 1), min(rows, diagonal + 1)
        row = np.arange(low, high)
        ways = np.stack([before[low:high], last[low:high], last[low + 1 : high + 1]])
        step = np.full(high - low, _NEXT_FRAME, np.int8)
        step[(ways[1] < ways[0]) & (ways[1] < ways[2])] = _NEXT_ID
        step[(ways[0] < ways[1]) & (ways[0] < ways[2])] = _DIAGONAL
        steps[row, diagonal - row] = step
        reached = np.full(rows + 1, np.inf, np.float32)
        reached[low + 1 : high + 1] = costs[row, diagonal - row] + ways[step, np.arange(high - low)]
        before, last = last, reached
    return _trace(steps)


def _trace(steps: NDArray[np.int8]) -> tuple[Integers, Integers]:
    row, column = steps.shape[0] - 1, steps.shape[1] - 1
    way = [(row, column)]
    while row > 0 or column > 0:
        step = _NEXT_FRAME if row == 0 else _NEXT_ID if column == 0 else steps[row, column]
        row -= step != _NEXT_FRAME
        column -= step != _NEXT_ID
        way.append((row, column))
    found = np.array(way[::-1], np.int64)
    return found[:, 0], found[:, 1]
