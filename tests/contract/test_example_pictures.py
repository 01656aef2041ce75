"""The example model that sees: its files, and what is known of them, are made again here without torch."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors import safe_open
from transformers import AutoTokenizer, CLIPImageProcessorPil, LlavaProcessor

from models.drawings.reading import decoded, processed

EXAMPLES = Path(__file__).parents[2] / "examples"
VLM = EXAMPLES / "tiny-vlm"
FORMS = {"PNG", "JPEG", "WEBP", "GIF"}


@cache
def _golden(folder: Path) -> dict[str, Any]:
    golden: dict[str, Any] = json.loads((folder / "golden.json").read_text())
    return golden


@cache
def _arrays(folder: Path) -> dict[str, NDArray[Any]]:
    with np.load(folder / "golden.npz") as arrays:
        return dict(arrays)


def _files() -> list[Any]:
    return [pytest.param(each, id=each["file"]) for each in _golden(VLM)["files"]]


@cache
def _llava() -> LlavaProcessor:
    return LlavaProcessor.from_pretrained(
        VLM,
        image_processor=CLIPImageProcessorPil.from_pretrained(VLM),
        tokenizer=AutoTokenizer.from_pretrained(VLM),
    )


@pytest.mark.parametrize("item", _files())
def test_a_file_gives_the_pixels_that_are_known(item: dict[str, Any]) -> None:
    content = (VLM / item["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == item["sha256"]
    pixels = processed(CLIPImageProcessorPil.from_pretrained(VLM), decoded(content))
    assert np.array_equal(pixels, _arrays(VLM)[item["pixels"]])
    assert hashlib.sha256(pixels.tobytes()).hexdigest() == item["pixels_sha256"]


def test_one_picture_is_there_in_every_form() -> None:
    same = [each for each in _golden(VLM)["files"] if each["file"].startswith("pictures/red_7")]
    assert {each["format"] for each in same} == FORMS
    assert {"RGB", "RGBA", "P"} <= {each["mode"] for each in same}
    without_loss = {each["pixels_sha256"] for each in same if each["format"] != "JPEG"}
    assert len(without_loss) == 1


def _prompts() -> list[Any]:
    return [pytest.param(each, id=each["name"]) for part in ("items", "rendered") for each in _golden(VLM)[part]]


@pytest.mark.parametrize("item", _prompts())
def test_the_processor_makes_the_ids_that_are_known(item: dict[str, Any]) -> None:
    processor = _llava()
    text = processor.tokenizer.apply_chat_template(item["messages"], add_generation_prompt=True, tokenize=False)
    assert text == item["prompt"]
    pictures = [np.zeros((64, 64, 3), np.uint8)] * len(item["spans"])
    made = processor(text=text, images=pictures or None, add_special_tokens=False)
    ids = made["input_ids"][0]
    assert ids == item["prompt_ids"]
    golden = _golden(VLM)
    places = [at for at, one in enumerate(ids) if one == golden["image_token_id"]]
    assert places == [at for start, length in item["spans"] for at in range(start, start + length)]


def test_answers_are_sure_and_cover_what_engines_are_to_prove() -> None:
    items = _golden(VLM)["items"]
    assert min(each["margin"] for each in items) >= 0.5
    assert {len(each["pictures"]) for each in items} == {0, 1, 2}
    assert all(len(each["logprobs"]) == len(each["output_ids"]) for each in items)


def test_features_of_each_drawing_are_as_many_as_its_ids() -> None:
    features = {name: each.shape for name, each in _arrays(VLM).items() if name.startswith("features/")}
    assert len(features) >= 5
    assert set(features.values()) == {(64, 128)}


def test_the_text_model_is_tiny_chat_with_one_more_id() -> None:
    chat = json.loads((EXAMPLES / "tiny-chat" / "config.json").read_text())
    config = json.loads((VLM / "config.json").read_text())
    assert config["text_config"]["vocab_size"] == chat["vocab_size"] + 1
    assert config["image_token_index"] == chat["vocab_size"] == _golden(VLM)["image_token_id"]
    with safe_open(VLM / "model.safetensors", "np") as weights:
        names = set(weights.keys())
    assert any(".layers.2." in each for each in names if "vision_tower" in each)
    assert config["vision_feature_layer"] == -2
