"""What of a window an engine has left out: models of speech sometimes end before the speech does."""

import numpy as np

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.windows.loudness import FRAME, Samples, loudness_of, pause_bound

_MISSED_S = 1.0
"""So long somebody must be heard behind the last word for it to be heard again."""
_NEAR = SAMPLE_RATE // FRAME // 5
"""Frames around the end of the last word in which a quieter place to begin is looked for: 0.2 s."""
_QUIETER = 0.5


def uncovered_from(samples: Samples, covered_s: float) -> int | None:
    """Return from which sample a window is to be heard again, given where its last word ends; None: from nowhere."""
    loudness = loudness_of(samples)
    covered = min(round(covered_s * SAMPLE_RATE / FRAME), len(loudness))
    loud = np.flatnonzero(loudness[covered:] >= pause_bound(loudness)) if len(loudness) else ()
    if len(loud) * FRAME < _MISSED_S * SAMPLE_RATE:
        return None
    first, last = max(0, covered - _NEAR), min(len(loudness), covered + _NEAR)
    near = loudness[first:last]
    quietest = first + int(np.argmin(near))
    begins = quietest if near.min() < _QUIETER * loudness[min(covered, len(loudness) - 1)] else covered
    return begins * FRAME if begins else None
