"""Measures the paths to a transcript in turns, so that other work on the machine meets each of them."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median

from bench.options import Effort
from bench.processes import CannotMeasure
from bench.speech.sounds import long_sound, wav, window, windows_of
from bench.speech.speech_clients import DirectSpeech, GatewaySpeech, WorkerSpeech
from conch_speech_worker.windows.loudness import Samples

LONG_WINDOWS = 20
"""Of 30 s each: ten minutes."""
WARM_UP = 2


@dataclass(slots=True)
class Times:
    """Milliseconds of each file, by path."""

    direct: list[float] = field(default_factory=list)
    worker: list[float] = field(default_factory=list)
    conch: list[float] = field(default_factory=list)


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
    windows, file, times = windows_of(sound), wav(sound), Times()
    if (calls := await worker.calls(file)) != len(windows):
        raise CannotMeasure(f"The worker asked its engine {calls} times about {len(windows)} windows.")
    for number in range(rounds + WARM_UP):
        found = {
            "direct": await _timed(lambda: direct.hear(windows)),
            "worker": await _timed(lambda: worker.transcribe(file)),
            "conch": await _timed(lambda: conch.transcribe(file)),
        }
        if number >= WARM_UP:
            for name, value in found.items():
                getattr(times, name).append(value / len(windows))
    return WindowMedians(len(windows), median(times.direct), median(times.worker), median(times.conch))


async def _timed(call: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await call()
    return (time.perf_counter() - began) * 1e3
