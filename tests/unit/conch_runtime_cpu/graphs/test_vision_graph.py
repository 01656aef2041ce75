"""LLaVA-like folders become graphs whose numbers equal those of plain numpy."""

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

from conch_contracts.cpu_runtime import Quantization
from conch_runtime_cpu.engine.decoder import OnnxDecoder, ShownFeatures
from conch_runtime_cpu.engine.vision import OnnxVision
from conch_runtime_cpu.graphs.config_json import read_config
from conch_runtime_cpu.graphs.conversion import SeeingFiles, converted_decoder, converted_seeing_decoder
from conch_runtime_cpu.graphs.decoder_architecture import (
    DecoderArchitecture,
    parse_decoder_architecture,
    read_decoder_architecture,
)
from conch_runtime_cpu.graphs.vision_architecture import read_vision_architecture, text_config
from testkit.models.random_llava import IMAGE_TOKEN, RandomLlava, random_picture, see, weights, write_folder
from testkit.models.random_llava import write_text_folder as write_blind
from testkit.models.random_model import HIDDEN, RandomModel, forward_embedded

BEFORE, AFTER = [3, 1, 4], [1, 5, 9, 2, 6]


def _converted(
    folder: Path, cache: Path, quantization: Quantization = Quantization.NONE
) -> tuple[SeeingFiles, DecoderArchitecture]:
    config = read_config(folder)
    text = parse_decoder_architecture(text_config(config))
    vision = read_vision_architecture(folder, config)
    return converted_seeing_decoder(folder, text, vision, quantization, cache), text


def _decoder(folder: Path, cache: Path) -> OnnxDecoder:
    files, text = _converted(folder, cache)
    return OnnxDecoder(files.decoder, text, slots=3, feature_width=HIDDEN)


@pytest.mark.parametrize(
    "model",
    [
        RandomLlava(),
        RandomLlava(layout="5", strategy="full", activation="gelu"),
        RandomLlava(layout="plain", taken=-1, projector_bias=False),
        RandomLlava(taken=[1, -1, 0], strategy="full"),
        RandomLlava(text=RandomModel("Qwen2ForCausalLM", biases=True, tied=True), layout="5", taken=3),
    ],
    ids=lambda model: f"{model.layout}-{model.taken}-{model.strategy}-{model.activation}",
)
def test_a_picture_has_the_reference_features(tmp_path: Path, model: RandomLlava) -> None:
    files, _ = _converted(write_folder(tmp_path / "model", model), tmp_path / "cache")
    vision = OnnxVision(files.vision)
    assert vision.warm_up() == HIDDEN
    for seed in (0, 1):
        pixels = random_picture(seed)
        expected = see(model, weights(model), pixels)
        assert expected.shape == (model.features, HIDDEN)
        np.testing.assert_allclose(vision(pixels), expected, atol=1e-4)


@pytest.mark.parametrize("text", [RandomModel(), RandomModel("Qwen2ForCausalLM", biases=True, tied=True)])
def test_features_take_the_place_of_embeddings_in_every_chunk(tmp_path: Path, text: RandomModel) -> None:
    model = RandomLlava(text)
    decoder = _decoder(write_folder(tmp_path / "model", model), tmp_path / "cache")
    tensors = weights(model)
    features = see(model, tensors, random_picture(0))
    ids = np.array([*BEFORE, *[IMAGE_TOKEN] * len(features), *AFTER])
    first, last = len(BEFORE), len(BEFORE) + len(features)
    embedded = tensors["model.embed_tokens.weight"][ids]
    embedded[first:last] = features
    expected = forward_embedded(tensors, embedded)

    rows = np.full(len(ids), -1)
    rows[first:last] = np.arange(len(features))
    shown = ShownFeatures(features, rows)
    np.testing.assert_allclose(decoder.prefill_keeping_all(0, ids, 0, shown), expected, atol=1e-4)
    cut = first + 4  # in the middle of the picture
    decoder.prefill(1, ids[:cut], 0, shown.part(0, cut))
    decoder.prefill(1, ids[cut:-1], cut, shown.part(cut, len(ids) - 1))
    np.testing.assert_allclose(decoder.logits[1], expected[-2], atol=1e-4)
    decoder.move(1, 0, len(ids) - 1)
    decoder.decode([int(ids[-1])], [len(ids)])
    np.testing.assert_allclose(decoder.logits[0], expected[-1], atol=1e-4)


def test_text_alone_has_bit_for_bit_the_numbers_of_the_model_without_eyes(tmp_path: Path) -> None:
    model = RandomLlava(layout="5")
    seeing = _decoder(write_folder(tmp_path / "seeing", model), tmp_path / "cache")
    folder = write_blind(tmp_path / "blind", model.text)
    architecture = read_decoder_architecture(folder)
    path = converted_decoder(folder, architecture, Quantization.NONE, tmp_path / "cache")
    blind = OnnxDecoder(path, architecture, slots=3)
    ids = np.array([*BEFORE, IMAGE_TOKEN, *AFTER])
    for decoder in (seeing, blind):
        decoder.prefill(0, ids, 0)
        decoder.prefill(1, ids[:3], 0)
        decoder.decode([7, 8], [len(ids) + 1, 4])
    np.testing.assert_array_equal(seeing.logits, blind.logits)
    np.testing.assert_array_equal(
        seeing.prefill_keeping_all(2, ids, 0).view(np.uint32), blind.prefill_keeping_all(2, ids, 0).view(np.uint32)
    )


def test_quantization_leaves_the_tower_as_it_is(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", RandomLlava())
    whole, _ = _converted(folder, tmp_path / "cache")
    packed, _ = _converted(folder, tmp_path / "cache", Quantization.INT4)
    assert packed.decoder.with_name("model.onnx.data").stat().st_size != (
        whole.decoder.with_name("model.onnx.data").stat().st_size
    )
    assert packed.vision.read_bytes() == whole.vision.read_bytes()
    pixels = random_picture(0)
    np.testing.assert_array_equal(OnnxVision(packed.vision)(pixels), OnnxVision(whole.vision)(pixels))


def test_another_normalisation_is_another_graph(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", RandomLlava())
    first, _ = _converted(folder, tmp_path / "cache")
    assert _converted(folder, tmp_path / "cache")[0] == first
    (folder / "preprocessor_config.json").write_text('{"do_normalize": false}')
    assert _converted(folder, tmp_path / "cache")[0] != first


def test_a_decoder_keeps_no_features_of_a_prompt(tmp_path: Path) -> None:
    decoder = _decoder(write_folder(tmp_path / "model", RandomLlava()), tmp_path / "cache")
    features = np.ones((2, HIDDEN), np.float32)
    kept = weakref.ref(features)
    decoder.prefill(0, np.array([1, 2]), 0, ShownFeatures(features, np.array([0, 1])))
    del features
    gc.collect()
    assert kept() is None
