"""How loud sound is, in frames of 10 ms."""

import numpy as np
from numpy.typing import NDArray

FRAME = 160
"""Samples of one frame: 10 ms."""

Samples = NDArray[np.int16]
Loudness = NDArray[np.float32]
"""The root mean square of each frame, in units of one sample's last bit."""

_SILENCE = 33.0
"""Nobody is heard below this: -60 dB of full scale."""
_QUIET_SHARE, _NOISE_SHARE = 0.05, 0.3
"""Of the loudness of speech: below the first is a pause between words, and below the second is noise in one."""
_SPEECH, _NOISE = 0.95, 0.1
"""Shares of the frames of a window: so many are no louder than speech, and so few no louder than its noise."""
_ABOVE_NOISE = 2.0


def loudness_of(samples: Samples) -> Loudness:
    """Return the loudness of each whole frame."""
    whole = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float32)
    loudness: Loudness = np.sqrt(np.mean(whole * whole, axis=1))
    return loudness


def is_silent(samples: Samples) -> bool:
    """Return whether nothing is to be heard at all."""
    loudness = loudness_of(samples)
    return not len(loudness) or float(loudness.max()) < _SILENCE


def pause_bound(loudness: Loudness) -> float:
    """Return below which loudness a frame is a pause."""
    speech, noise = (float(bound) for bound in np.quantile(loudness, (_SPEECH, _NOISE)))
    return max(_SILENCE, _QUIET_SHARE * speech, min(_NOISE_SHARE * speech, _ABOVE_NOISE * noise))
