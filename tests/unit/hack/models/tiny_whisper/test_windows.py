from pathlib import Path

import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from models.tiny_whisper.phrases import Phrase, known_phrase
from models.tiny_whisper.spectra import FRAMES, HOP, MelEnergies
from models.tiny_whisper.voices import RATE, Utterance, keep, read_kept
from models.tiny_whisper.windows import Spoken, Studio, Window

CHANCE = np.random.default_rng(1)
SAID = [
    Utterance(known_phrase(text), (CHANCE.standard_normal(length) * 0.1).astype(np.float32))
    for text, length in (("stop", 9000), ("one two", 17_000), ("停", 8000), ("开灯", 15_000))
]


@pytest.fixture
def studio() -> Studio:
    return Studio(SAID, 1)


def test_a_window_put_together_has_the_spectrum_of_its_sound(studio: Studio) -> None:
    mel, sound, spoken = MelEnergies(), np.zeros(FRAMES * HOP, np.float32), []
    for frame, loudness, each in ((0, 0.5, SAID[0]), (70, 1.0, SAID[1]), (2850, 0.8, SAID[2])):
        sound[frame * HOP : frame * HOP + len(each.samples)] += loudness * each.samples
        spoken.append((Spoken(each.phrase, mel.of(each.samples), len(each.samples) / RATE), frame, loudness))
    expected = WhisperFeatureExtractor()(sound, sampling_rate=RATE, return_tensors="np")["input_features"][0].T
    made = studio.whole(Window("en", tuple(spoken), 0, 0, ()))
    np.testing.assert_allclose(made[2:], expected[2:], atol=1e-4)  # before them what begins at once is mirrored


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_what_is_said_never_overlaps_and_stays_in_the_window(studio: Studio, count: int) -> None:
    for _ in range(100):
        window = studio.draw(count)
        bounds = [time for each in window.segments for time in (each.start, each.end)]
        assert bounds == sorted(set(bounds))
        assert len(bounds) == 2 * count
        assert all(0 <= time <= 30 for time in bounds)
        assert {each.phrase.language for each in window.segments} <= {window.language}


def test_who_speaks_at_once_does_so_within_half_a_second_and_who_is_late_does_not(studio: Studio) -> None:
    at_once = [studio.draw(2, late=False).segments[0].start for _ in range(100)]
    assert max(at_once) <= 0.4
    assert {studio.draw(1, late=True).segments[0].start > 5 for _ in range(100)} == {True, False}


def test_an_excerpt_has_all_that_is_said_and_counts_for_the_whole(studio: Studio) -> None:
    for _ in range(50):
        window = studio.draw()
        whole, excerpt = studio.whole(window).reshape(FRAMES // 2, 2, -1), studio.excerpt(window, 10)
        places = set(excerpt.places.tolist())
        for spoken, frame, _ in window.spoken:
            assert places >= set(range(frame // 2, (frame + len(spoken.energies)) // 2))
        assert excerpt.weights.sum() == pytest.approx(FRAMES / 2, rel=1e-4)
        assert len(excerpt.places) < 600
        if window.spoken:  # else the loudest frame may be left out
            np.testing.assert_allclose(excerpt.spectrum.reshape(-1, 2, 80), whole[excerpt.places], atol=1e-6)


def test_utterances_are_kept_in_a_file(tmp_path: Path) -> None:
    keep(iter(SAID), tmp_path / "said.npz")
    kept = read_kept(tmp_path / "said.npz")
    assert [each.phrase for each in kept] == [each.phrase for each in SAID]
    for one, other in zip(kept, SAID, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)


def test_digits_are_spelt_one_by_one() -> None:
    assert Phrase("zh", "三五八", "three five eight").spelt == "三 五 八"
    assert known_phrase("开灯").spelt == "开灯"
