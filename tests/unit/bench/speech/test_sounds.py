import io

import pytest
import soundfile
from bench.speech.sounds import KINDS, long_sound, noisy_file, wav, window, windows_of

from conch_contracts.dialects.speech import SAMPLE_RATE, WINDOW_SAMPLES


def test_a_window_is_one_call_of_an_engine():
    assert len(window()) == WINDOW_SAMPLES
    assert len(windows_of(window())) == 1
    assert soundfile.info(io.BytesIO(wav(window()))).duration == 30


def test_long_sound_is_cut_close_before_the_words_of_each_window():
    windows = windows_of(long_sound(6))
    assert len(windows) == 6
    for samples in windows:
        loud = (abs(samples.astype(int)) > 500).nonzero()[0]
        assert loud[0] < 0.5 * SAMPLE_RATE
        assert loud[-1] > 29 * SAMPLE_RATE


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_of_its_kind(kind):
    info = soundfile.info(io.BytesIO(noisy_file(kind, 2)))
    assert (info.format, info.samplerate, info.channels) == (KINDS[kind][0], 48_000, 2)
    assert abs(info.duration - 2) < 0.1
