"""Whisper's two graphs on the example's weights: the reference's numbers in every row, beside rows of other lengths."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from conch_runtime_cpu.engine.whisper_model import WhisperModel, window_slots_within
from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.conversion import converted_whisper
from conch_runtime_cpu.graphs.whisper_architecture import read_whisper_architecture
from conch_runtime_cpu.speech.spectrogram import Spectrogram
from testkit.models.speech_golden import FOLDER, SpokenItem, load_speech_golden

GOLDEN = load_speech_golden()
ARCHITECTURE = read_whisper_architecture(FOLDER)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> WhisperModel:
    cache = tmp_path_factory.mktemp("whisper")
    made = WhisperModel(converted_whisper(FOLDER, ARCHITECTURE, cache), ARCHITECTURE, ARCHITECTURE.context, slots=4)
    made.warm_up()
    return made


def hear(model: WhisperModel, row: int, item: SpokenItem) -> None:
    model.encode(row, Spectrogram(ARCHITECTURE.mels).of(np.frombuffer(item.pcm, np.int16)))


def logprobs(logits: NDArray[np.float32], ids: list[int]) -> list[float]:
    shifted = logits - logits.max(axis=1, keepdims=True)
    normalised = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    found: list[float] = normalised[np.arange(len(ids)), ids].tolist()
    return found


@pytest.mark.parametrize("row", [0, 3])
def test_forced_ids_have_the_probabilities_of_the_reference(model: WhisperModel, row: int) -> None:
    for item in GOLDEN.items:
        hear(model, row, item)
        ids = np.array([*item.forced_prompt, *item.forced[:-1]])
        kept = model.prefill(row, ids, list(range(len(item.forced_prompt) - 1, len(ids))))
        assert logprobs(kept, list(item.forced)) == pytest.approx(item.forced_logprobs, abs=1e-4)


def test_rows_of_different_length_are_decoded_together_as_each_alone(model: WhisperModel) -> None:
    asked = [(item, [*item.forced_prompt, *item.forced[: 1 + index]]) for index, item in enumerate(GOLDEN.items[:3])]
    expected = []
    for row, (item, ids) in enumerate(asked):
        hear(model, row, item)
        expected.append(model.prefill(row, np.array(ids), [len(ids) - 1])[0])
        model.prefill(row, np.array(ids[:-1]), [len(ids) - 2])
    model.decode([ids[-1] for _, ids in asked], [len(ids) for _, ids in asked])
    np.testing.assert_allclose(model.logits[:3], expected, atol=1e-4)

    # The last row moves over the first one, and reads on there.
    item, ids = asked[2]
    model.move(2, 0, len(ids))
    following = [*ids, item.forced[len(ids) - len(item.forced_prompt)]]
    model.decode(following[-1:], [len(following)])
    hear(model, 3, item)
    alone = model.prefill(3, np.array(following), [len(following) - 1])
    np.testing.assert_allclose(model.logits[0], alone[0], atol=1e-4)


def test_attention_is_that_of_each_head(model: WhisperModel) -> None:
    item = GOLDEN.items[0]
    hear(model, 1, item)
    ids = np.array([*item.forced_prompt, *item.forced])
    last = ARCHITECTURE.decoder_heads - 1
    heads = [(ARCHITECTURE.decoder_layers - 1, 0), (ARCHITECTURE.decoder_layers - 1, last), (0, last)]
    together = model.attention(1, ids, heads, 50)
    assert together.shape == (3, len(ids), 50)
    for index, head in enumerate(heads):
        np.testing.assert_allclose(model.attention(1, ids, [head], 1500)[0, :, :50], together[index], atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 1e-3


def test_a_folder_is_converted_once(tmp_path: Path) -> None:
    first = converted_whisper(FOLDER, ARCHITECTURE, tmp_path)
    written = first.decoder.stat().st_mtime_ns
    assert converted_whisper(FOLDER, ARCHITECTURE, tmp_path) == first
    assert first.decoder.stat().st_mtime_ns == written
    assert not list(tmp_path.glob("*.draft"))


@pytest.mark.parametrize(("windows", "slots"), [(100, 16), (16, 16), (5, 5), (1, 1)])
def test_the_cache_limit_bounds_the_windows(windows: int, slots: int) -> None:
    assert window_slots_within(ARCHITECTURE, 64, 16, windows * ARCHITECTURE.slot_bytes(64)) == slots


def test_a_cache_too_small_for_one_window_is_refused() -> None:
    needed = ARCHITECTURE.slot_bytes(64)
    with pytest.raises(UnusableModel, match=f"One window needs {needed} bytes .* the limit is {needed - 1}"):
        window_slots_within(ARCHITECTURE, 64, 16, needed - 1)
