import numpy as np
import pytest

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.windows.coverage import uncovered_from
from testkit.models.tone_speech import TONE_S, WORD_S, silence, spoken


def pcm(*parts):
    return (np.concatenate(parts) * 32_767).astype(np.int16)


@pytest.mark.parametrize("covered", [1, 3, 7])
def test_what_follows_the_last_word_is_heard_again_from_the_pause_behind_it(covered):
    end_s = WORD_S * (covered - 1) + TONE_S
    at = uncovered_from(pcm(spoken([1] * 8)), end_s)
    assert at is not None
    assert end_s <= at / SAMPLE_RATE <= WORD_S * covered


@pytest.mark.parametrize(
    ("samples", "covered_s"),
    [
        (pcm(spoken([1] * 8)), WORD_S * 8),
        (pcm(spoken([1] * 8), silence(5)), WORD_S * 8),
        (pcm(spoken([1] * 8)), WORD_S * 8 - 0.1),
        (pcm(spoken([1] * 8), silence(2), spoken([2])[:1000]), WORD_S * 8),
        (pcm(spoken([1])[:100]), 0.0),  # less than a frame
    ],
)
def test_a_window_that_is_covered_is_not_heard_again(samples, covered_s):
    assert uncovered_from(samples, covered_s) is None


def test_noise_in_a_pause_is_nobody():
    noise = np.random.default_rng(1).normal(0, 0.03, SAMPLE_RATE * 4).astype(np.float32)
    speech = spoken([1, 2, 3, 4, 5] * 4)
    assert uncovered_from(pcm(speech + noise[: len(speech)], noise), WORD_S * 20) is None
