"""The files of a small model that sees pictures, without weights: the tokenizer of tiny-chat, and an image token."""

import json
import shutil
from pathlib import Path
from typing import Any

from testkit.models.golden import FOLDER

IMAGE = "<image>"
IMAGE_ID = 2048
"""The first id behind those of tiny-chat."""
SIDE = 64
FEATURES = 64
"""Of each picture: 8 x 8 patches of 8 x 8 pixels."""
_WRITES_TEXTS = "{%- if p is string -%}"
_WRITES_PICTURES = "{%- if p.type is defined and p.type == 'image' -%}<image>{%- elif p is string -%}"

IMAGE_PROCESSOR: dict[str, Any] = {
    "image_processor_type": "CLIPImageProcessor",
    "crop_size": {"height": SIDE, "width": SIDE},
    "do_center_crop": True,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "resample": 3,
    "rescale_factor": 1 / 255,
    "size": {"shortest_edge": SIDE},
}
PROCESSOR: dict[str, Any] = {
    "processor_class": "LlavaProcessor",
    "image_token": IMAGE,
    "num_additional_image_tokens": 1,
    "patch_size": 8,
    "vision_feature_select_strategy": "default",
}
CONFIG: dict[str, Any] = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "image_token_index": IMAGE_ID,
    "vision_feature_select_strategy": "default",
    "text_config": {"model_type": "qwen2", "vocab_size": 2056},
    "vision_config": {"model_type": "clip_vision_model", "image_size": SIDE, "patch_size": 8},
}


def make_picture_model(
    folder: Path,
    *,
    config: dict[str, Any] | None = None,
    processor: dict[str, Any] | None = None,
    image_processor: dict[str, Any] | None = None,
) -> Path:
    """Write the model's files into a new folder, with these fields of its settings changed; None leaves one out."""
    folder.mkdir()
    for name in ("generation_config.json", "special_tokens_map.json"):
        shutil.copy(FOLDER / name, folder)
    tokenizer = json.loads((FOLDER / "tokenizer.json").read_text())
    token = {"content": IMAGE, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    tokenizer["added_tokens"].append({"id": IMAGE_ID, "special": True, **token})
    settings = json.loads((FOLDER / "tokenizer_config.json").read_text())
    settings["added_tokens_decoder"][str(IMAGE_ID)] = {"special": True, **token}
    template = settings.pop("chat_template")
    assert _WRITES_TEXTS in template
    (folder / "chat_template.jinja").write_text(template.replace(_WRITES_TEXTS, _WRITES_PICTURES))
    files = {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": settings,
        "config.json": CONFIG | (config or {}),
        "processor_config.json": PROCESSOR | (processor or {}),
        "preprocessor_config.json": IMAGE_PROCESSOR | (image_processor or {}),
    }
    for name, content in files.items():
        told = {key: value for key, value in content.items() if value is not None}
        (folder / name).write_text(json.dumps(told, ensure_ascii=False))
    return folder
