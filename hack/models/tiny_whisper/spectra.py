"""Spectra as WhisperFeatureExtractor makes them, in two steps: energies of parts, and what a window makes of their sum.

A window's loudest place bounds what is told of its quietest, so the logarithm comes last.
"""

import numpy as np
from numpy.typing import NDArray
from transformers import WhisperFeatureExtractor

from models.tiny_whisper.voices import Samples

HOP = 160
FRAMES = 3000
"""Of a window of 30 s."""
BEFORE = 2
"""So many frames of an utterance's energies come before its first sample."""
_LENGTH = 400
_LEAST = 1e-10
_RANGE = 8.0

Spectrum = NDArray[np.float32]
"""Frames by bands."""


class MelEnergies:
    """The energies of sound, by frame and band."""

    def __init__(self) -> None:
        self._filters = WhisperFeatureExtractor().mel_filters.astype(np.float32)
        self._window = np.hanning(_LENGTH + 1)[:-1].astype(np.float32)

    def of(self, samples: Samples) -> Spectrum:
        """Return those of samples with silence around them."""
        frames = BEFORE + len(samples) // HOP + BEFORE
        padded = np.zeros(frames * HOP + _LENGTH, np.float32)
        first = BEFORE * HOP + _LENGTH // 2
        padded[first : first + len(samples)] = samples
        parts = np.lib.stride_tricks.sliding_window_view(padded, _LENGTH)[::HOP][:frames] * self._window
        energies: Spectrum = (np.abs(np.fft.rfft(parts)) ** 2 @ self._filters).astype(np.float32)
        return energies


def logarithmic(energies: Spectrum) -> Spectrum:
    """Return what a model is given of the energies of a whole window, or of those frames of it that matter."""
    found = np.log10(np.maximum(energies, _LEAST))
    made: Spectrum = (np.maximum(found, found.max() - _RANGE) + 4.0) / 4.0
    return made.astype(np.float32)
