"""What the speech-worker's decoder makes of a file, without a child around it."""

import tempfile

import numpy as np

from conch_speech_worker.audio.decoding import samples_of
from testkit.models.tone_speech import Sound


def decoded(data: bytes, most_s: float = 100.0) -> Sound:
    """Return what is to be heard of a file, mono at 16 kHz; raises FileRefused."""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(data)
        parts = list(samples_of(file.fileno(), most_s))
    return np.concatenate(parts).astype(np.float32) / 32_768
