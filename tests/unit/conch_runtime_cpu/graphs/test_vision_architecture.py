import json
from pathlib import Path
from typing import Any

import pytest
from transformers import CLIPVisionConfig, LlamaConfig, Qwen2Config, Qwen3Config

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.decoder_architecture import parse_decoder_architecture
from conch_runtime_cpu.graphs.vision_architecture import (
    parse_vision_architecture,
    read_vision_architecture,
    sees_pictures,
    text_config,
)
from testkit.models.random_llava import LAYERS, PATCHES, RandomLlava, config, processor
from testkit.models.random_model import RandomModel

CONFIG = config(RandomLlava())
LLAVA_1_5: dict[str, Any] = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "image_token_index": 32000,
    "projector_hidden_act": "gelu",
    "text_config": {
        "architectures": ["LlamaForCausalLM"],
        "max_position_embeddings": 4096,
        "model_type": "llama",
        "rms_norm_eps": 1e-05,
        "torch_dtype": "float16",
        "vocab_size": 32064,
    },
    "tie_word_embeddings": False,
    "vision_config": {
        "hidden_size": 1024,
        "image_size": 336,
        "intermediate_size": 4096,
        "model_type": "clip_vision_model",
        "num_attention_heads": 16,
        "num_hidden_layers": 24,
        "patch_size": 14,
        "projection_dim": 768,
        "vocab_size": 32000,
    },
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
}
"""As llava-hf/llava-1.5-7b-hf has it: what has the default of its class is left out."""


def _vision(**fields: Any) -> dict[str, Any]:
    return {**CONFIG, "vision_config": {**config(RandomLlava())["vision_config"], **fields}}  # type: ignore[dict-item]


def test_a_config_that_leaves_out_defaults_is_read() -> None:
    vision = parse_vision_architecture(LLAVA_1_5, {})
    assert (vision.features, vision.side, vision.taken, vision.activation) == (576, 336, (23,), "QuickGelu")
    text = parse_decoder_architecture(text_config(LLAVA_1_5))
    assert (text.name, text.layers, text.heads, text.head_dim) == ("LlamaForCausalLM", 32, 32, 128)
    assert (text.context, text.vocabulary, text.norm_epsilon, text.tied_embeddings) == (4096, 32064, 1e-5, False)


@pytest.mark.parametrize(("kind", "known"), [("llama", LlamaConfig), ("qwen2", Qwen2Config), ("qwen3", Qwen3Config)])
def test_the_defaults_are_those_of_transformers(kind: str, known: type) -> None:
    full = json.loads(known().to_json_string(use_diff=False))
    least = {"model_type": kind, "image_token_index": 1}
    ours = parse_decoder_architecture(text_config({"text_config": least}))
    theirs = parse_decoder_architecture(text_config({"text_config": full}))
    assert ours == theirs


def test_the_towers_defaults_are_those_of_transformers() -> None:
    full = json.loads(CLIPVisionConfig().to_json_string(use_diff=False))
    said = {"image_token_index": 1}
    assert parse_vision_architecture({**said, "vision_config": {}}, {}) == parse_vision_architecture(
        {**said, "vision_config": full}, {}
    )


@pytest.mark.parametrize(
    ("above", "within", "tied"), [(True, False, True), (False, True, True), (False, False, False), (None, None, False)]
)
def test_embeddings_are_tied_where_either_place_says_so(above: bool | None, within: bool | None, tied: bool) -> None:
    text = {**config(RandomLlava())["text_config"], "tie_word_embeddings": within}  # type: ignore[dict-item]
    found = text_config({**CONFIG, "text_config": text, "tie_word_embeddings": above})
    assert parse_decoder_architecture(found).tied_embeddings is tied


@pytest.mark.parametrize(
    ("fields", "sees"),
    [
        (CONFIG, True),
        ({"model_type": "llava"}, True),
        ({"architectures": ["LlavaForConditionalGeneration"]}, True),
        ({"model_type": "llava_next"}, False),
        ({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}, False),
    ],
)
def test_a_model_that_sees_is_known_by_its_type(fields: dict[str, Any], sees: bool) -> None:
    assert sees_pictures(fields) is sees


@pytest.mark.parametrize("text", ["LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_the_text_model_is_one_that_is_served_alone_too(text: str) -> None:
    found = text_config(config(RandomLlava(RandomModel(text))))
    assert parse_decoder_architecture(found).name == text


@pytest.mark.parametrize(
    ("value", "strategy", "taken", "features"),
    [
        (-2, "default", (LAYERS - 1,), PATCHES),
        (-1, "full", (LAYERS,), PATCHES + 1),
        (0, "default", (0,), PATCHES),
        ([-1, 1], "full", (LAYERS, 1), PATCHES + 1),
        (-LAYERS - 1, "default", (0,), PATCHES),
    ],
)
def test_the_layers_of_the_features_are_counted_from_either_end(
    value: object, strategy: str, taken: tuple[int, ...], features: int
) -> None:
    fields = {**CONFIG, "vision_feature_layer": value, "vision_feature_select_strategy": strategy}
    found = parse_vision_architecture(fields, processor())
    assert (found.taken, found.features) == (taken, features)


@pytest.mark.parametrize(
    ("said", "scale", "shift"),
    [
        ({"image_mean": [0.5] * 3, "image_std": [0.5] * 3}, 2 / 255, -1.0),
        ({"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_rescale": False}, 2.0, -1.0),
        ({"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "rescale_factor": 1.0}, 2.0, -1.0),
        ({"do_normalize": False}, 1 / 255, 0.0),
        ({}, 1 / 255 / 0.26862954, -0.48145466 / 0.26862954),
    ],
)
def test_bytes_are_normalised_as_the_image_processor_says(said: dict[str, Any], scale: float, shift: float) -> None:
    found = parse_vision_architecture(CONFIG, said).normalisation
    assert (found.scale[0], found.shift[0]) == pytest.approx((scale, shift))


def test_the_image_processor_may_be_part_of_the_processors_file(tmp_path: Path) -> None:
    with pytest.raises(UnusableModel, match=r"has no preprocessor_config\.json"):
        read_vision_architecture(tmp_path, CONFIG)
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": {"image_std": [1, 1, 1]}}))
    assert read_vision_architecture(tmp_path, CONFIG).normalisation.scale == (1 / 255,) * 3
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_std": [2, 2, 2]}))
    assert read_vision_architecture(tmp_path, CONFIG).normalisation.scale == (1 / 510,) * 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (_vision(model_type="siglip_vision_model"), "must be a clip_vision_model; vision_config says siglip"),
        (_vision(hidden_act="relu"), "hidden_act of vision_config must be gelu or quick_gelu"),
        (_vision(num_channels=1), "num_channels"),
        (_vision(num_attention_heads=5), "multiple of num_attention_heads"),
        (_vision(patch_size=0), "patch_size of vision_config must be a positive whole number"),
        (_vision(patch_size=100), "image_size .* must be at least patch_size"),
        ({**CONFIG, "vision_config": None}, "vision_config must be an object"),
        ({**CONFIG, "projector_hidden_act": "relu"}, "projector_hidden_act must be gelu"),
        ({**CONFIG, "vision_feature_select_strategy": "cls"}, "vision_feature_select_strategy must be default or full"),
        ({**CONFIG, "vision_feature_layer": LAYERS + 1}, "vision_feature_layer must name layers from -4 to 3"),
        ({**CONFIG, "vision_feature_layer": []}, "vision_feature_layer names no layer"),
        ({**CONFIG, "image_token_index": None}, "image_token_index must be an id"),
    ],
)
def test_what_cannot_be_computed_exactly_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableModel, match=message):
        parse_vision_architecture(fields, processor())


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"image_mean": [0.5]}, "image_mean must be three numbers"),
        ({"image_std": [0, 1, 1]}, "image_std must be above 0"),
        ({"rescale_factor": 0}, "rescale_factor must be a positive number"),
    ],
)
def test_a_normalisation_without_sense_is_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableModel, match=message):
        parse_vision_architecture(CONFIG, said)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text_config": {"model_type": "mistral"}}, "text_config says mistral"),
        ({"text_config": {}, "quantization_config": {"bits": 4}}, "quantized already"),
        ({}, "text_config must be an object"),
    ],
)
def test_a_text_model_that_is_not_served_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableModel, match=message):
        text_config(fields)
