"""Sound to be heard: the example's own words in windows of 30 s, and files of them."""

import io
import random

import numpy as np
import soundfile
from numpy.typing import NDArray

from bench.conversations import ROOT
from conch_contracts.dialects.speech import SAMPLE_RATE, WINDOW_SAMPLES
from conch_speech_worker.windows.cutting import WindowCutter
from conch_speech_worker.windows.loudness import Samples, is_silent

MODEL = ROOT / "examples" / "tiny-whisper"
KINDS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "opus": ("OGG", "OPUS"),
}
"""What libsndfile calls each kind of file."""
_WRITTEN_TOGETHER = 65_536
_PERIOD_S, _LAST_PAUSE_S, _NOISE_S = 29.8, 0.4, 0.08

Floats = NDArray[np.float32]


def window(seconds: float = WINDOW_SAMPLES / SAMPLE_RATE) -> Samples:
    """Return a stretch that begins with a few words: one call of the engine, for nothing is heard behind them."""
    said, rate = soundfile.read(MODEL / "wavs" / "one_two_three.wav", dtype="int16")
    assert rate == SAMPLE_RATE
    sound = np.zeros(round(seconds * SAMPLE_RATE), np.int16)
    sound[: len(said)] = said
    return sound


def long_sound(windows: int) -> Samples:
    """Return sound that is cut into so many windows, each of which begins with a few words.

    A noise that is too short for a word makes the last pause of a window a short one, close behind which the next
    words come; without it windows would be cut in the middle of a long pause, and words would come late in them.
    """
    part = window(_PERIOD_S)
    noise = np.random.default_rng(1).integers(-3000, 3000, round(_NOISE_S * SAMPLE_RATE), np.int16)
    end = round((_PERIOD_S - _LAST_PAUSE_S) * SAMPLE_RATE)
    part[end - len(noise) : end] = noise
    return np.tile(part, windows)


def windows_of(sound: Samples) -> list[Samples]:
    """Return the windows that a worker makes of some sound, those that are heard."""
    cutter = WindowCutter()
    found = [*cutter.feed(sound.tobytes()), *cutter.end()]
    return [one.samples for one in found if not is_silent(one.samples)]


def wav(sound: Samples) -> bytes:
    """Return a file of 16 kHz."""
    return _file(sound, SAMPLE_RATE, *KINDS["wav"])


def noisy_file(kind: str, seconds: int, rate: int = 48_000) -> bytes:
    """Return a file of two channels in which there is something at every moment, as decoders find it in speech."""
    chance = np.random.default_rng(random.Random(kind).randrange(1000))
    time = np.arange(seconds * rate, dtype=np.float32) / rate
    tone = 0.2 * np.sin(2 * np.pi * 220 * time + 3 * np.sin(2 * np.pi * 3 * time))
    noise = 0.02 * chance.standard_normal((len(time), 2)).astype(np.float32)
    return _file((tone[:, None] + noise).astype(np.float32), rate, *KINDS[kind])


def _file(sound: Samples | Floats, rate: int, kind: str, subtype: str) -> bytes:
    buffer = io.BytesIO()
    with soundfile.SoundFile(buffer, "w", rate, 1 if sound.ndim == 1 else 2, subtype, format=kind) as file:
        for at in range(0, len(sound), _WRITTEN_TOGETHER):  # more of Opus at once overflows its encoder's stack
            file.write(sound[at : at + _WRITTEN_TOGETHER])
    return buffer.getvalue()
