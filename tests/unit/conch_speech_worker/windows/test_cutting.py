import random

import numpy as np
import pytest

from conch_contracts.dialects.speech import SAMPLE_RATE, WINDOW_SAMPLES
from conch_speech_worker.windows.cutting import WindowCutter, cut_at


def loud(*quiet: tuple[float, float, int]):
    samples = np.random.default_rng(1).integers(-4000, 4000, WINDOW_SAMPLES).astype(np.int16)
    for start_s, end_s, level in quiet:
        first, last = round(start_s * SAMPLE_RATE), round(end_s * SAMPLE_RATE)
        samples[first:last] = np.random.default_rng(2).integers(-level - 1, level + 1, last - first)
    return samples


@pytest.mark.parametrize(
    ("quiet", "cut_s"),
    [
        ([(27.0, 27.4, 0)], 27.2),
        ([(26.0, 26.5, 0), (28.0, 28.3, 0)], 28.15),
        ([(29.7, 30.0, 0)], 29.85),
        ([(21.0, 21.4, 5)], 21.2),
        ([(26.0, 26.1, 0)], 26.05),
        ([(28.0, 28.1, 1500)], 28.05),
    ],
)
def test_a_window_ends_in_the_last_pause_or_where_it_is_quietest(quiet, cut_s):
    assert cut_at(loud(*quiet)) / SAMPLE_RATE == pytest.approx(cut_s, abs=0.021)


def test_windows_together_are_the_sound_however_it_comes():
    chance = random.Random(1)
    sound = np.frombuffer(random.Random(2).randbytes(SAMPLE_RATE * 2 * 100), "<i2")
    data, cutter, windows = sound.tobytes(), WindowCutter(), []
    while data:
        size = 2 * chance.randrange(1, 100_001)
        windows += cutter.feed(data[:size])
        data = data[size:]
    windows += cutter.end()
    assert cutter.heard == len(sound)
    assert [window.start for window in windows] == [
        sum(len(one.samples) for one in windows[:at]) for at in range(len(windows))
    ]
    assert max(len(window.samples) for window in windows) <= WINDOW_SAMPLES
    assert np.array_equal(np.concatenate([window.samples for window in windows]), sound)
