"""The example models of pictures: their files, and what is known of them, are made again here without torch."""

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
VLM, CLIP = EXAMPLES / "tiny-vlm", EXAMPLES / "tiny-clip"
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
    folders = (VLM, CLIP)
    return [
        pytest.param(folder, each, id=f"{folder.name} {each['file']}")
        for folder in folders
        for each in _golden(folder)["files"]
    ]


@cache
def _llava() -> LlavaProcessor:
    return LlavaProcessor.from_pretrained(
        VLM,
        image_processor=CLIPImageProcessorPil.from_pretrained(VLM),
        tokenizer=AutoTokenizer.from_pretrained(VLM),
    )


@pytest.mark.parametrize(("folder", "item"), _files())
def test_a_file_gives_the_pixels_that_are_known(folder: Path, item: dict[str, Any]) -> None:
    content = (folder / item["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == item["sha256"]
    pixels = processed(CLIPImageProcessorPil.from_pretrained(folder), decoded(content))
    assert np.array_equal(pixels, _arrays(folder)[item["pixels"]])
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


def test_two_pictures_in_the_other_order_are_known_to_give_other_numbers() -> None:
    """So an engine that takes one for the other is seen."""
    golden = _golden(VLM)
    asked = {(each["prompt"], *each["pictures"]): each for each in golden["items"] if len(each["pictures"]) == 2}
    swapped = ((each, asked.get((each["prompt"], *reversed(each["pictures"])))) for each in asked.values())
    pairs = [(each, other) for each, other in swapped if other]
    assert pairs
    for first, second in pairs:
        assert first["prompt_ids"] == second["prompt_ids"]
        assert abs(first["logprobs"][0] - second["logprobs"][0]) > 3 * golden["tolerance_logprob"]


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


def test_texts_for_tiny_clip_get_the_ids_that_are_known() -> None:
    tokenizer = AutoTokenizer.from_pretrained(CLIP)
    config = json.loads((CLIP / "config.json").read_text())["text_config"]
    assert config["eos_token_id"] != 2  # with 2 transformers takes the last state elsewhere
    for each in _golden(CLIP)["texts"]:
        ids = tokenizer(each["text"])["input_ids"]
        assert ids == each["ids"]
        assert (ids[0], ids[-1]) == (config["bos_token_id"], config["eos_token_id"])


def test_each_picture_of_tiny_clip_is_nearest_to_its_own_text() -> None:
    golden, arrays = _golden(CLIP), _arrays(CLIP)
    pictures = np.stack([arrays[each["vector"]] for each in golden["files"]])
    cosines = pictures @ arrays["texts"].T
    assert np.allclose(cosines, golden["cosines"], atol=1e-4)
    assert np.allclose(np.linalg.norm(pictures, axis=1), 1, atol=1e-5)
    assert cosines[:5].argmax(1).tolist() == [0, 1, 2, 3, 4]
