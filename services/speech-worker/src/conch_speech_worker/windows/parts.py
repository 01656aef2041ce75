"""Parts of a window, for engines that write no more than a few tokens for each."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from conch_contracts.dialects.speech import SAMPLE_RATE, SECONDS_PER_TIME_ID
from conch_speech_worker.windows.cutting import cut_at
from conch_speech_worker.windows.loudness import FRAME, Samples, loudness_of, pause_bound

SAMPLES_OF_STEP = round(SECONDS_PER_TIME_ID * SAMPLE_RATE)
"""Samples between two ids that stand for a time: parts begin and end at one."""
_QUIET = 3
"""Frames of the shortest pause between words."""


@dataclass(frozen=True, slots=True)
class WindowPart:
    """A stretch of a window."""

    start: int
    """Samples of the window before it."""
    samples: Samples

    @property
    def bounds(self) -> tuple[int, int]:
        """Return where it begins and ends, in samples of the window."""
        return self.start, self.start + len(self.samples)

    def cut(self, at: int) -> tuple["WindowPart", "WindowPart"]:
        """Return what is before a sample of it and what comes from there, at the step before."""
        at = at // SAMPLES_OF_STEP * SAMPLES_OF_STEP
        return WindowPart(self.start, self.samples[:at]), WindowPart(self.start + at, self.samples[at:])


def parts_of(samples: Samples, longest: int) -> Iterator[WindowPart]:
    """Yield parts of a window that are no longer, cut in pauses; `longest` is 10 s at least."""
    rest = WindowPart(0, samples)
    while len(rest.samples) > longest:
        part, rest = rest.cut(cut_at(rest.samples[:longest]))
        yield part
    yield rest


def halves_of(part: WindowPart) -> tuple[WindowPart, WindowPart]:
    """Return a part in two: cut in the pause nearest its middle, or where its middle half is quietest."""
    loudness = loudness_of(part.samples)
    level = np.convolve(loudness, np.full(_QUIET, 1 / _QUIET), "same")
    first, last = len(level) // 4, len(level) * 3 // 4
    quiet = first + np.flatnonzero(level[first:last] < pause_bound(loudness))
    quietest = first + int(np.argmin(level[first:last]))
    at = int(quiet[np.argmin(np.abs(quiet - len(level) // 2))]) if len(quiet) else quietest
    return part.cut(at * FRAME)
