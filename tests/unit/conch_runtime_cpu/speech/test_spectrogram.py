import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from conch_contracts.dialects.speech import WINDOW_SAMPLES
from conch_runtime_cpu.speech.spectrogram import FRAMES, Spectrogram
from testkit.models.speech_golden import load_speech_golden

TOLERANCE = 2e-6


@pytest.mark.parametrize("item", load_speech_golden().items, ids=lambda item: item.file)
def test_the_features_are_those_of_the_reference(item) -> None:
    features = Spectrogram(80).of(np.frombuffer(item.pcm, np.int16))
    assert [1, *features.shape] == item.features["shape"]
    assert features.dtype == np.float32
    found = [features.mean(), features.min(), features.max(), *features[0, :8]]
    expected = [item.features[name] for name in ("mean", "min", "max")] + item.features["first8_bin0"]
    assert found == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("samples", [1, 159, 160, 201, 16_000, WINDOW_SAMPLES - 100, WINDOW_SAMPLES])
def test_every_length_gives_what_the_feature_extractor_of_transformers_gives(samples: int, mels: int) -> None:
    random = np.random.default_rng(samples)
    pcm = (random.standard_normal(samples) * 3000).astype(np.int16)
    extractor = WhisperFeatureExtractor(feature_size=mels)
    expected = extractor(pcm.astype(np.float32) / np.float32(32768), sampling_rate=16_000, return_tensors="np")
    np.testing.assert_allclose(Spectrogram(mels).of(pcm), expected["input_features"][0], atol=TOLERANCE)


def test_silence_is_flat() -> None:
    features = Spectrogram(80).of(np.zeros(100, np.int16))
    assert features.shape == (80, FRAMES)
    assert np.unique(features).tolist() == [-1.5]
