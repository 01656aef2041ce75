"""Folders become graphs whose numbers equal those of a plain numpy forward pass."""

import errno
import os
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from safetensors.numpy import save_file

from conch_contracts.cpu_runtime import Quantization
from conch_runtime_cpu.engine.decoder import OnnxDecoder, slots_within
from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs import conversion
from conch_runtime_cpu.graphs.conversion import converted_decoder
from conch_runtime_cpu.graphs.decoder_architecture import read_decoder_architecture
from conch_runtime_cpu.graphs.quantization import quantize
from testkit.models.quantized_matrix import dequantize
from testkit.models.random_model import VOCABULARY, RandomModel, forward, weights, write_folder

IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]


def _decoder(folder: Path, cache: Path, quantization: Quantization = Quantization.NONE) -> OnnxDecoder:
    architecture = read_decoder_architecture(folder)
    return OnnxDecoder(converted_decoder(folder, architecture, quantization, cache), architecture, slots=3)


@pytest.mark.parametrize(
    "model",
    [
        RandomModel("LlamaForCausalLM"),
        RandomModel("Qwen2ForCausalLM", biases=True, tied=True),
        RandomModel("Qwen3ForCausalLM", head_norms=True),
    ],
    ids=lambda model: model.name,
)
@pytest.mark.parametrize("shards", [1, 2])
def test_prefill_and_decoding_give_the_reference_logits(tmp_path: Path, model: RandomModel, shards: int) -> None:
    decoder = _decoder(write_folder(tmp_path / "model", model, shards=shards), tmp_path / "cache")
    expected = forward(weights(model), IDS)

    decoder.prefill(1, np.array(IDS[:4]), 0)
    np.testing.assert_allclose(decoder.logits[1], expected[3], atol=1e-4)
    decoder.prefill(1, np.array(IDS[4:7]), 4)  # a second chunk of the same prompt
    np.testing.assert_allclose(decoder.logits[1], expected[6], atol=1e-4)
    decoder.move(1, 0, 7)
    decoder.prefill(1, np.array(IDS[:2]), 0)
    decoder.decode([IDS[7], IDS[2]], [8, 3])  # rows of different length in one step
    np.testing.assert_allclose(decoder.logits[:2], expected[[7, 2]], atol=1e-4)
    everything = decoder.prefill_keeping_all(2, np.array(IDS), 0)
    np.testing.assert_allclose(everything, expected, atol=1e-4)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 0.05), (ml_dtypes.bfloat16, 0.3)])
def test_half_precision_weights_are_read(tmp_path: Path, dtype: type, tolerance: float) -> None:
    model = RandomModel()
    folder = write_folder(tmp_path / "model", model)
    halved = {name: tensor.astype(dtype) for name, tensor in weights(model).items()}
    save_file(halved, folder / "model.safetensors")
    decoder = _decoder(folder, tmp_path / "cache")
    decoder.prefill(0, np.array(IDS), 0)
    rounded = {name: tensor.astype(np.float32) for name, tensor in halved.items()}
    np.testing.assert_allclose(decoder.logits[0], forward(rounded, IDS)[-1], atol=1e-4)
    np.testing.assert_allclose(decoder.logits[0], forward(weights(model), IDS)[-1], atol=tolerance * 4)


@pytest.mark.parametrize("quantization", [Quantization.INT8, Quantization.INT4])
def test_a_quantized_graph_computes_with_the_quantized_weights(tmp_path: Path, quantization: Quantization) -> None:
    model = RandomModel()
    decoder = _decoder(write_folder(tmp_path / "model", model), tmp_path / "cache", quantization)
    decoder.prefill(0, np.array(IDS), 0)
    held = {
        name: dequantize(quantize(tensor.T, quantization.bits)).T if "proj" in name or "lm_head" in name else tensor
        for name, tensor in weights(model).items()
    }
    expected = forward(held, IDS)[-1]
    # The kernel rounds activations to 8 bits too, so the numbers are close and not equal.
    assert np.corrcoef(decoder.logits[0], expected)[0, 1] > 0.99
    np.testing.assert_allclose(decoder.logits[0], expected, atol=0.1 * np.abs(expected).max())


def test_a_folder_is_converted_once_and_again_when_its_content_changes(tmp_path: Path) -> None:
    folder, cache = write_folder(tmp_path / "model", RandomModel()), tmp_path / "cache"
    architecture = read_decoder_architecture(folder)
    first = converted_decoder(folder, architecture, Quantization.NONE, cache)
    written = first.stat().st_mtime_ns
    assert converted_decoder(folder, architecture, Quantization.NONE, cache) == first
    assert first.stat().st_mtime_ns == written
    save_file(weights(RandomModel(), seed=1), folder / "model.safetensors")
    assert converted_decoder(folder, architecture, Quantization.NONE, cache) != first
    assert not list(cache.glob("*.draft"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("model.safetensors", "holds neither model.safetensors"),
        ("config.json", "config.json cannot be read"),
    ],
)
def test_a_missing_file_is_named(tmp_path: Path, damage: str, message: str) -> None:
    folder = write_folder(tmp_path / "model", RandomModel())
    (folder / damage).unlink()
    with pytest.raises(UnusableModel, match=message):
        _decoder(folder, tmp_path / "cache")


def test_a_broken_weights_file_is_named_and_leaves_no_cache_entry(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", RandomModel())
    (folder / "model.safetensors").write_bytes(b"not a tensor")
    with pytest.raises(UnusableModel, match=r"model\.safetensors cannot be read"):
        _decoder(folder, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*"))


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", RandomModel())
    tensors = weights(RandomModel())
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(UnusableModel, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        _decoder(folder, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*"))


@pytest.mark.parametrize(("sequences", "slots"), [(100, 16), (16, 16), (5, 5), (1, 1)])
def test_the_cache_limit_bounds_the_batch(tmp_path: Path, sequences: int, slots: int) -> None:
    architecture = read_decoder_architecture(write_folder(tmp_path, RandomModel()))
    assert slots_within(architecture, 16, sequences * architecture.kv_bytes_per_sequence) == slots


def test_a_cache_too_small_for_one_sequence_is_refused(tmp_path: Path) -> None:
    architecture = read_decoder_architecture(write_folder(tmp_path, RandomModel()))
    assert architecture.vocabulary == VOCABULARY
    with pytest.raises(UnusableModel, match=r"64 tokens needs .* generation\.maxLength to at most 63\."):
        slots_within(architecture, 16, architecture.kv_bytes_per_sequence - 1)


def test_a_cache_that_cannot_be_written_is_no_success(tmp_path: Path) -> None:
    model = write_folder(tmp_path / "model", RandomModel())
    cache = tmp_path / "cache"
    converted_decoder(model, read_decoder_architecture(model), Quantization.NONE, cache)
    (entry,) = cache.iterdir()
    shutil.rmtree(entry)
    entry.write_text("in the way")
    with pytest.raises(NotADirectoryError):
        converted_decoder(model, read_decoder_architecture(model), Quantization.NONE, cache)
    assert list(cache.iterdir()) == [entry]


def test_a_disk_that_is_full_leaves_no_half_of_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, cache = write_folder(tmp_path / "model", RandomModel()), tmp_path / "cache"
    architecture = read_decoder_architecture(folder)

    def write_half(graph: onnx.ModelProto, file: str, **_: object) -> None:
        Path(file).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(onnx, "save_model", write_half)
        with pytest.raises(OSError, match="No space left"):
            converted_decoder(folder, architecture, Quantization.NONE, cache)
    assert list(cache.iterdir()) == []
    _decoder(folder, cache).prefill(0, np.array(IDS), 0)


def test_of_two_engines_that_convert_at_once_the_first_ones_files_stay(tmp_path: Path) -> None:
    entry = tmp_path / "cache" / "key"

    def build() -> onnx.ModelProto:
        entry.mkdir()
        (entry / "first").write_text("")
        return onnx.helper.make_model(onnx.helper.make_graph([], "second", [], []))

    conversion._save({"model.onnx": build}, entry)
    assert [path.name for path in entry.iterdir()] == ["first"]
    assert list(entry.parent.iterdir()) == [entry]
