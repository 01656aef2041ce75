"""What each stage of hearing costs: CPU time of this process, in which the code of worker and runtime runs alone."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.options import Effort
from bench.speech.sounds import KINDS, MODEL, noisy_file, window
from conch_contracts.dialects.speech import SAMPLE_RATE, WINDOW_SAMPLES
from conch_runtime_cpu.engine.whisper_model import WhisperModel
from conch_runtime_cpu.graphs.conversion import converted_whisper
from conch_runtime_cpu.graphs.whisper_architecture import read_whisper_architecture
from conch_runtime_cpu.speech.spectrogram import Spectrogram
from conch_speech_worker.audio.decoding import samples_of
from conch_speech_worker.windows.loudness import is_silent

WINDOW_S = WINDOW_SAMPLES // SAMPLE_RATE
FILE_S = 60
TOKENS_OF_S = 4
"""Three words a second, and a time now and then."""
ROWS = 8
_STEPS = 50


@dataclass(frozen=True, slots=True)
class StageFigures:
    """Seconds of audio for each second of CPU time."""

    decoded: dict[str, float]
    """By kind of file."""
    cut: float
    mel: float
    encoder: float
    steps: dict[int, float]
    """By windows that are decoded together."""


def measure(folder: Path, effort: Effort) -> StageFigures:
    """Measure each stage; the fastest round counts."""
    rounds = effort.parsing_rounds
    architecture = read_whisper_architecture(MODEL)
    model = WhisperModel(converted_whisper(MODEL, architecture, folder), architecture, architecture.context, ROWS)
    model.warm_up()
    spectrogram, sound = Spectrogram(architecture.mels), window()
    features = spectrogram.of(sound)
    for row in range(ROWS):
        model.encode(row, features)
    return StageFigures(
        decoded={kind: FILE_S / _decoding(kind, max(2, rounds // 5)) for kind in KINDS},
        cut=WINDOW_S / _fastest(lambda: is_silent(sound), rounds),
        mel=WINDOW_S / _fastest(lambda: spectrogram.of(sound), rounds),
        encoder=WINDOW_S / _fastest(lambda: model.encode(0, features), rounds),
        steps={rows: rows / TOKENS_OF_S / _step(model, rows, rounds) for rows in (1, ROWS)},
    )


def _decoding(kind: str, rounds: int) -> float:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(noisy_file(kind, FILE_S))

        def decode() -> None:
            file.seek(0)
            heard = sum(len(samples) for samples in samples_of(file.fileno(), 2.0 * FILE_S))
            assert abs(heard / SAMPLE_RATE - FILE_S) < 1

        return _fastest(decode, rounds)


def _step(model: WhisperModel, rows: int, rounds: int) -> float:
    begin = np.array([1, 2, 3], np.int64)

    def steps() -> None:
        for row in range(rows):
            model.prefill(row, begin, [len(begin) - 1])
        for number in range(_STEPS):
            model.decode([4] * rows, [len(begin) + 1 + number] * rows)

    return _fastest(steps, max(2, rounds // 5)) / _STEPS


def _fastest(call: Callable[[], object], rounds: int) -> float:
    found = []
    for _ in range(rounds):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return max(min(found), 1e-6)
