"""Where a window ends that would be too long: in a pause, if there is one, else where it is quietest."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from conch_contracts.dialects.speech import SAMPLE_RATE, WINDOW_SAMPLES
from conch_speech_worker.windows.loudness import FRAME, Samples, loudness_of, pause_bound

_FRAMES_OF_S = SAMPLE_RATE // FRAME
_PAUSE_WITHIN = 10 * _FRAMES_OF_S
"""The end of a window in which a pause is looked for, in frames."""
_PAUSE = _FRAMES_OF_S // 5
"""Frames of a pause: 0.2 s."""
_QUIET_WITHIN = 5 * _FRAMES_OF_S
_QUIET = _FRAMES_OF_S // 10
"""Frames of the quietest place: 0.1 s."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of sound that an engine hears at once."""

    start: int
    """Samples before it."""
    samples: Samples

    @property
    def start_s(self) -> float:
        """Return where it begins, in seconds."""
        return self.start / SAMPLE_RATE

    @property
    def length_s(self) -> float:
        """Return how long it is."""
        return len(self.samples) / SAMPLE_RATE

    def rest(self, at: int) -> "Window":
        """Return what begins at this sample of it."""
        return Window(self.start + at, self.samples[at:])


class WindowCutter:
    """Cuts samples as they come; holds no more than a window and what came with its end."""

    def __init__(self) -> None:
        self._held = np.zeros(0, np.int16)
        self._start = 0

    @property
    def heard(self) -> int:
        """How many samples have come."""
        return self._start + len(self._held)

    def feed(self, samples: bytes) -> Iterator[Window]:
        """Take 16-bit samples and yield the windows that they complete."""
        self._held = np.concatenate([self._held, np.frombuffer(samples, "<i2")])
        while len(self._held) > WINDOW_SAMPLES:
            yield self._cut(cut_at(self._held[:WINDOW_SAMPLES]))

    def end(self) -> Iterator[Window]:
        """Yield what is left."""
        if len(self._held):
            yield self._cut(len(self._held))

    def _cut(self, at: int) -> Window:
        window = Window(self._start, self._held[:at])
        self._start += at
        self._held = self._held[at:]
        return window


def cut_at(samples: Samples) -> int:
    """Return at which sample a full window is to end."""
    loudness = loudness_of(samples)
    quiet = loudness < pause_bound(loudness)
    first = len(loudness) - _PAUSE_WITHIN
    run_end = len(loudness)
    for at in range(len(loudness) - 1, first - 1, -1):  # the last pause: the longest window
        if not quiet[at]:
            run_end = at
        elif run_end - at >= _PAUSE and (at == first or not quiet[at - 1]):
            return (at + run_end) // 2 * FRAME
    first = len(loudness) - _QUIET_WITHIN
    sums = np.convolve(loudness[first:], np.ones(_QUIET), "valid")
    quietest = len(sums) - 1 - int(np.argmin(sums[::-1]))
    return (first + quietest + _QUIET // 2) * FRAME
