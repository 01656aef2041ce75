import json
from typing import Any

import pytest
from transformers import CLIPTextConfig, CLIPVisionConfig

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.clip_architecture import parse_clip_architecture
from testkit.models.clip_golden import FOLDER

CONFIG: dict[str, Any] = json.loads((FOLDER / "config.json").read_text())
LEAST: dict[str, Any] = {"text_config": {}, "vision_config": {}}


def _changed(part: str, **fields: Any) -> dict[str, Any]:
    return {**CONFIG, part: {**CONFIG[part], **fields}}


def test_the_defaults_are_those_of_transformers() -> None:
    text, vision = (json.loads(kind().to_json_string(use_diff=False)) for kind in (CLIPTextConfig, CLIPVisionConfig))
    full = {"text_config": text, "vision_config": vision}
    assert parse_clip_architecture(LEAST) == parse_clip_architecture(full)


def test_both_towers_are_read() -> None:
    found = parse_clip_architecture(CONFIG)
    assert (found.texts.layers, found.texts.positions, found.texts.end_id) == (4, 32, 388)
    assert (found.pictures.layers, found.pictures.side, found.pictures.patches) == (2, 64, 64)


def test_a_second_config_of_the_oldest_folders_is_the_valid_one() -> None:
    found = parse_clip_architecture({**CONFIG, "text_config_dict": {"hidden_size": 768, "num_attention_heads": 12}})
    assert (found.texts.width, found.texts.layers) == (768, 12)
    assert parse_clip_architecture({**CONFIG, "text_config_dict": None}) == parse_clip_architecture(CONFIG)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (_changed("text_config", model_type="bert"), "text tower must be a clip_text_model; text_config says bert"),
        (_changed("text_config", hidden_act="relu"), "hidden_act of text_config must be gelu or quick_gelu"),
        (_changed("text_config", eos_token_id=None), "eos_token_id of text_config must be an id"),
        (_changed("text_config", max_position_embeddings=0), "max_position_embeddings of text_config"),
        (_changed("text_config", num_attention_heads=5), "hidden_size .* of text_config must be a multiple"),
        (_changed("vision_config", model_type="siglip_vision_model"), "vision tower must be a clip_vision_model"),
        (_changed("vision_config", image_size=4), "image_size .* must be at least patch_size"),
        ({**CONFIG, "vision_config": None}, "vision_config must be an object"),
        ({**CONFIG, "quantization_config": {"bits": 4}}, "quantized already"),
    ],
)
def test_what_cannot_be_computed_exactly_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableModel, match=message):
        parse_clip_architecture(fields)
