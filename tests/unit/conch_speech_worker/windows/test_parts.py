import random

import numpy as np
import pytest

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.windows.parts import SAMPLES_OF_STEP, WindowPart, halves_of, parts_of
from testkit.models.tone_speech import WORD_S, silence, spoken


def pcm(*parts):
    return (np.concatenate(parts) * 32_767).astype(np.int16)


@pytest.mark.parametrize("longest_s", [10, 12, 24])
def test_parts_together_are_the_window(longest_s):
    for seed in range(5):
        chance = random.Random(seed)
        sound = pcm(*(piece for _ in range(8) for piece in (spoken([1] * chance.randint(5, 15)), silence(0.3))))
        parts = list(parts_of(sound, longest_s * SAMPLE_RATE))
        assert np.array_equal(np.concatenate([part.samples for part in parts]), sound)
        assert [part.bounds[0] for part in parts[1:]] == [part.bounds[1] for part in parts[:-1]]
        assert max(len(part.samples) for part in parts) <= longest_s * SAMPLE_RATE
        assert all(part.bounds[0] % SAMPLES_OF_STEP == 0 for part in parts)


def test_a_window_that_is_short_enough_is_one_part():
    sound = pcm(spoken([1] * 50))
    (part,) = parts_of(sound, 10 * SAMPLE_RATE)
    assert part.bounds == (0, len(sound))


def test_halves_are_cut_in_the_pause_nearest_the_middle():
    part = WindowPart(3200, pcm(spoken([1] * 10), silence(0.3), spoken([2] * 11), silence(0.5), spoken([3] * 40)))
    first, second = halves_of(part)
    assert first.start == 3200
    assert second.start == 3200 + len(first.samples)
    word = WORD_S * SAMPLE_RATE
    assert len(first.samples) + len(second.samples) == len(part.samples)
    begins = (len(first.samples) - 0.8 * SAMPLE_RATE) % word
    assert begins >= 0.8 * word or begins <= 0.01 * word, "between two words"


def test_halves_without_a_pause_are_cut_where_it_is_quietest():
    samples = np.random.default_rng(1).integers(-4000, 4000, 8 * SAMPLE_RATE).astype(np.int16)
    samples[3 * SAMPLE_RATE : 3 * SAMPLE_RATE + 1600] //= 2
    first, _ = halves_of(WindowPart(0, samples))
    assert len(first.samples) / SAMPLE_RATE == pytest.approx(3.05, abs=0.06)
