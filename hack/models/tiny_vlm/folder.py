"""The model as a folder of Hugging Face."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import CLIPImageProcessorPil, LlavaForConditionalGeneration

from models.drawings.scenes import SIDE
from models.drawings.tower import MEAN, PATCH, STD
from models.tiny_vlm.dialogues import IMAGE

_TEXT_PART = "{%- elif p.text is defined and p.text is not none -%}"
_PICTURE_PART = "{%- elif p.type is defined and p.type == 'image' -%}{{ '" + IMAGE + "\\n' }}"
_ADDED = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}


def write_folder(network: LlavaForConditionalGeneration, chat: Path, folder: Path) -> None:
    """Write weights, settings, processors and the tokenizer, of which tiny-chat's is most."""
    folder.mkdir(parents=True, exist_ok=True)
    network.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["rope_theta"] = config["text_config"]["rope_parameters"]["rope_theta"]  # as others read it
    _write(folder / "config.json", config)
    (folder / "generation_config.json").write_bytes((chat / "generation_config.json").read_bytes())
    image = network.config.image_token_index
    _write_tokenizer(chat, folder, image)
    write_image_processor(folder, "LlavaProcessor")
    _write(
        folder / "processor_config.json",
        {
            "processor_class": "LlavaProcessor",
            "image_token": IMAGE,
            "patch_size": PATCH,
            "vision_feature_select_strategy": "default",
            "num_additional_image_tokens": 1,
        },
    )


def write_image_processor(folder: Path, processor: str) -> None:
    """Write how pictures are brought to the size of the tower."""
    made = CLIPImageProcessorPil(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}, image_mean=MEAN, image_std=STD
    )
    settings = {"processor_class": processor, **made.to_dict(), "image_processor_type": "CLIPImageProcessor"}
    _write(folder / "preprocessor_config.json", settings)


def _write_tokenizer(chat: Path, folder: Path, image: int) -> None:
    tokenizer = json.loads((chat / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append({"id": image, "content": IMAGE, **_ADDED})
    _write(folder / "tokenizer.json", tokenizer)
    if Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id(IMAGE) != image:
        raise SystemExit(f"the token {IMAGE} did not become {image}")
    settings = json.loads((chat / "tokenizer_config.json").read_text())
    settings["added_tokens_decoder"][str(image)] = {"content": IMAGE, **_ADDED}
    settings["additional_special_tokens"].append(IMAGE)
    settings["chat_template"] = _seeing(settings["chat_template"])
    _write(folder / "tokenizer_config.json", settings)
    special = json.loads((chat / "special_tokens_map.json").read_text())
    special["additional_special_tokens"].append(IMAGE)
    _write(folder / "special_tokens_map.json", special)


def _seeing(template: str) -> str:
    """Return the template with pictures where their parts stand."""
    if template.count(_TEXT_PART) != 1:
        raise SystemExit("tiny-chat's template is not the one that this extends")
    return template.replace(_TEXT_PART, _PICTURE_PART + _TEXT_PART)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")
