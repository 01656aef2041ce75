from pathlib import Path

import pytest

from conch_contracts.cpu_runtime import Quantization
from conch_runtime_cpu.engine.loading import load
from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.decoder_architecture import read_decoder_architecture
from conch_runtime_cpu.settings import RuntimeSettings
from testkit.models.random_model import CONTEXT, RandomModel, write_folder


def _settings(folder: Path, **bounds: int) -> RuntimeSettings:
    values = {"max_batch_size": 4, "kv_cache_bytes": 1_000_000_000, "max_length": 0} | bounds
    return RuntimeSettings(folder, folder / "cache", Quantization.NONE, tokens_per_second=0, **values)


@pytest.mark.parametrize(("asked", "context"), [(0, CONTEXT), (20, 20), (1000, CONTEXT)])
def test_a_sequence_is_as_long_as_was_asked_but_no_longer_than_the_models_own(
    tmp_path: Path, asked: int, context: int
) -> None:
    assert load(_settings(write_folder(tmp_path, RandomModel()), max_length=asked)).limits.context == context


def test_a_shorter_sequence_needs_a_smaller_cache(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, RandomModel())
    half = read_decoder_architecture(folder).kv_bytes_per_sequence // 2
    with pytest.raises(UnusableModel, match=rf"maxLength to at most {CONTEXT // 2}\."):
        load(_settings(folder, kv_cache_bytes=half))
    assert load(_settings(folder, kv_cache_bytes=half, max_length=CONTEXT // 2)).limits.context == CONTEXT // 2
