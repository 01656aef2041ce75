"""What of a window an engine has left out: models of speech sometimes end before the speech does."""

import numpy as np

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.windows.loudness import FRAME, Samples, loudness_of, pause_bound

_MISSED_S = 0.15
"""So long somebody must be heard behind the last word for it to be heard again: a short word."""
_NEAR = SAMPLE_RATE // FRAME // 5
"""Frames around the end of the last word in which a pause to begin in is looked for: 0.2 s."""


def uncovered_from(samples: Samples, covered_s: float) -> int | None:
    """Return from which sample a window is to be heard again, given where its last word ends; None: from nowhere."""
    loudness = loudness_of(samples)
    covered = min(round(covered_s * SAMPLE_RATE / FRAME), len(loudness))
    if covered == len(loudness):
        return None
    bound = pause_bound(loudness)
    if np.count_nonzero(loudness[covered:] >= bound) * FRAME < _MISSED_S * SAMPLE_RATE:
        return None
    first, last = max(1, covered - _NEAR), min(len(loudness), covered + _NEAR)
    quiet = first + np.flatnonzero(loudness[first:last] < bound)
    begins = int(quiet[np.argmin(np.abs(quiet - covered))]) if len(quiet) else covered
    return begins * FRAME or None
