"""Measures the paths to a transcript in turns, so that other work on the machine meets each of them."""

from dataclasses import dataclass

from bench.options import Effort
from bench.processes import CannotMeasure
from bench.speech.sounds import long_sound, wav, window, windows_of
from bench.speech.speech_clients import DirectSpeech, GatewaySpeech, WorkerSpeech
from bench.turns import medians
from conch_speech_worker.windows.loudness import Samples

LONG_WINDOWS = 20
"""Of 30 s each: ten minutes."""
WARM_UP = 2


@dataclass(frozen=True, slots=True)
class WindowMedians:
    """Median milliseconds of a window of a file."""

    windows: int
    direct: float
    worker: float
    conch: float


@dataclass(frozen=True, slots=True)
class PathFigures:
    """All that was measured of the paths."""

    window: WindowMedians
    long: WindowMedians


async def measure(direct: DirectSpeech, worker: WorkerSpeech, conch: GatewaySpeech, effort: Effort) -> PathFigures:
    """Measure a file of one window, and one of ten minutes."""
    rounds = max(4, effort.latency_requests // 2) * effort.pairs
    one = window()
    short = await _turns(one, rounds, direct, worker, conch)
    long = await _turns(long_sound(LONG_WINDOWS), max(2, rounds // 8), direct, worker, conch)
    return PathFigures(short, long)


async def _turns(
    sound: Samples, rounds: int, direct: DirectSpeech, worker: WorkerSpeech, conch: GatewaySpeech
) -> WindowMedians:
    windows, file = windows_of(sound), wav(sound)
    if (calls := await worker.calls(file)) != len(windows):
        raise CannotMeasure(f"The worker asked its engine {calls} times about {len(windows)} windows.")
    paths = {
        "direct": lambda: direct.hear(windows),
        "worker": lambda: worker.transcribe(file),
        "conch": lambda: conch.transcribe(file),
    }
    found = await medians(lambda: paths, rounds, warm_up=WARM_UP)
    return WindowMedians(len(windows), **{name: value / len(windows) for name, value in found.items()})
