"""Turns sound into the log-mel spectrogram that Whisper hears, as transformers' WhisperFeatureExtractor does.

Frames of 400 samples every 160 under a Hann window, their power in mel bands after Slaney, the logarithm of it cut 8
decades below the loudest, and scaled. Behind the end of a sound all frames are the same, so only those that touch it
are computed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch_contracts.dialects.speech import SAMPLE_RATE, WINDOW_SAMPLES

Floats = NDArray[np.float32]
_Doubles = NDArray[np.float64]

FRAME, HOP = 400, 160
FRAMES = WINDOW_SAMPLES // HOP
"""Of a whole window."""
_HIGHEST_HZ = 8000.0
_LINEAR_BELOW_HZ, _LINEAR_MELS, _MELS_PER_E = 1000.0, 15.0, 27.0 / np.log(6.4)
_FLOOR = 1e-10
_RANGE = 8.0


@dataclass(frozen=True, slots=True, init=False)
class Spectrogram:
    """Makes spectrograms of so many mel bands."""

    _filters: _Doubles
    _window: _Doubles

    def __init__(self, mels: int) -> None:
        object.__setattr__(self, "_filters", _mel_filters(mels))
        object.__setattr__(self, "_window", 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME))

    def of(self, pcm: NDArray[np.int16]) -> Floats:
        """Return the spectrogram of a window, [mels, frames]; what is missing of 30 s is silence."""
        sound = np.zeros(WINDOW_SAMPLES + FRAME, np.float64)
        sound[FRAME // 2 : FRAME // 2 + len(pcm)] = pcm.astype(np.float32) / np.float32(32768)
        sound[: FRAME // 2] = sound[FRAME : FRAME // 2 : -1]
        sound[-FRAME // 2 :] = sound[-FRAME // 2 - 2 : -FRAME - 2 : -1]
        touched = min(FRAMES, (len(pcm) + FRAME // 2) // HOP + 1)
        frames = np.lib.stride_tricks.sliding_window_view(sound, FRAME)[: touched * HOP : HOP]
        spectrum = np.fft.rfft(frames * self._window).astype(np.complex64)
        power = np.abs(spectrum, dtype=np.float64) ** 2
        decades = np.full((len(self._filters), FRAMES), np.log10(_FLOOR), np.float32)
        decades[:, :touched] = np.log10(np.maximum(_FLOOR, self._filters @ power.T))
        features: Floats = (np.maximum(decades, decades.max() - np.float32(_RANGE)) + np.float32(4)) / np.float32(4)
        return features


def _mel_filters(mels: int) -> _Doubles:
    """Return the share of each frequency in each band, [mels, frequencies]: triangles of equal area."""
    highest = _LINEAR_MELS + np.log(_HIGHEST_HZ / _LINEAR_BELOW_HZ) * _MELS_PER_E
    corners = _hertz(np.linspace(0.0, highest, mels + 2))
    frequencies = np.linspace(0, SAMPLE_RATE // 2, FRAME // 2 + 1)
    slopes = corners[:, None] - frequencies
    widths = np.diff(corners)[:, None]
    triangles = np.maximum(0.0, np.minimum(-slopes[:-2] / widths[:-1], slopes[2:] / widths[1:]))
    filters: _Doubles = triangles * (2.0 / (corners[2:] - corners[:-2]))[:, None]
    return filters


def _hertz(mels: _Doubles) -> _Doubles:
    linear = mels * 200.0 / 3.0
    above = _LINEAR_BELOW_HZ * np.exp(np.maximum(0.0, mels - _LINEAR_MELS) / _MELS_PER_E)
    return np.where(mels >= _LINEAR_MELS, above, linear)
