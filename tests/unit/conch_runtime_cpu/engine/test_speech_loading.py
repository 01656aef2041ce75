from pathlib import Path

import pytest

from conch_contracts.cpu_runtime import Quantization
from conch_runtime_cpu.engine.speech_loading import load_speech
from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.whisper_architecture import read_whisper_architecture
from conch_runtime_cpu.settings import RuntimeSettings
from testkit.models.random_model import RandomModel, write_folder
from testkit.models.speech_golden import FOLDER


def _settings(cache: Path, folder: Path = FOLDER, **fields: object) -> RuntimeSettings:
    values = {
        "quantization": Quantization.NONE,
        "max_batch_size": 2,
        "tokens_per_second": 0,
        "kv_cache_bytes": 1_000_000_000,
        "max_length": 0,
    }
    return RuntimeSettings(folder, cache, **(values | fields))


CONTEXT = read_whisper_architecture(FOLDER).context


@pytest.mark.parametrize(("asked", "context"), [(0, CONTEXT), (20, 20), (CONTEXT + 1, CONTEXT)])
def test_a_window_is_as_long_as_was_asked_but_no_longer_than_the_models_own(
    tmp_path: Path, asked: int, context: int
) -> None:
    assert load_speech(_settings(tmp_path, max_length=asked)).context == context


def test_quantized_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableModel, match="set quantization to none"):
        load_speech(_settings(tmp_path, quantization=Quantization.INT8))


def test_a_cache_that_holds_no_window_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableModel, match="One window needs"):
        load_speech(_settings(tmp_path, kv_cache_bytes=1000))


def test_a_language_model_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", RandomModel())
    with pytest.raises(UnusableModel, match="architecture is LlamaForCausalLM"):
        load_speech(_settings(tmp_path, folder))
