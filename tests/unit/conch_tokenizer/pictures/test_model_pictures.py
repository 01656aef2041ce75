import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer, LlavaProcessor
from transformers.image_processing_backends import PilBackend
from transformers.image_transforms import normalize, rescale
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from conch_tokenizer.errors import BundleUnreadable
from conch_tokenizer.pictures.model_pictures import ModelPictures, PictureFamily, model_pictures
from conch_tokenizer.text.model_tokenizer import load
from testkit.models.picture_model import FEATURES, IMAGE, IMAGE_ID, IMAGE_PROCESSOR, PROCESSOR, SIDE, make_picture_model
from testkit.models.pictures import picture

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda **changes: make_picture_model(tmp_path / "model", **changes)


def pictures_of(folder: Path) -> ModelPictures:
    found = model_pictures(folder, AutoTokenizer.from_pretrained(str(folder)))
    assert found is not None
    return found


def family_of(folder: Path) -> PictureFamily:
    family = pictures_of(folder).family
    assert family is not None
    return family


def reference(folder: Path, kind: type[PilBackend]) -> LlavaProcessor:
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    settings = {name: value for name, value in PROCESSOR.items() if name != "processor_class"}
    return LlavaProcessor(kind.from_pretrained(str(folder)), tokenizer, **settings)


SQUARE = {"height": SIDE, "width": SIDE}
PROCESSORS: dict[str, tuple[type[PilBackend], dict[str, Any]]] = {
    "cut to a square": (CLIPImageProcessorPil, {}),
    "by its old name": (
        CLIPImageProcessorPil,
        {"image_processor_type": None, "feature_extractor_type": "CLIPFeatureExtractor"},
    ),
    "of another backend": (CLIPImageProcessorPil, {"image_processor_type": "CLIPImageProcessorFast"}),
    "not cut": (CLIPImageProcessorPil, {"do_center_crop": False}),
    "smaller than the cut": (CLIPImageProcessorPil, {"size": {"shortest_edge": 40}}),
    "pulled to a square": (
        SiglipImageProcessorPil,
        {"image_processor_type": "SiglipImageProcessor", "size": SQUARE, "do_center_crop": None, "crop_size": None},
    ),
    "padded to a square": (
        LlavaImageProcessorPil,
        {"image_processor_type": "LlavaImageProcessor", "do_pad": True},
    ),
}


@pytest.mark.parametrize("size", [(60, 90), (200, 64), (64, 64), (7, 9), (640, 480)], ids=str)
@pytest.mark.parametrize("name", PROCESSORS)
def test_pixels_and_ids_are_those_of_transformers(name: str, size: tuple[int, int], make: Make) -> None:
    kind, changes = PROCESSORS[name]
    folder = make(image_processor=changes)
    image, family = picture(*size), family_of(folder)
    expected = reference(folder, kind)(text=IMAGE, images=[image])
    pixels = family.pixels(image)
    seen = np.frombuffer(pixels.data, np.uint8).reshape(pixels.height, pixels.width, 3)
    mean, std = IMAGE_PROCESSOR["image_mean"], IMAGE_PROCESSOR["image_std"]
    ours = normalize(rescale(np.moveaxis(seen, -1, 0), 1 / 255), mean, std)
    np.testing.assert_array_equal(ours, expected["pixel_values"][0])
    assert family.length(pixels.height, pixels.width) == expected["input_ids"][0].count(IMAGE_ID)


def test_a_large_picture_costs_little_more_than_to_make_it_smaller(make: Make) -> None:
    image, family = picture(4_000, 4_000), family_of(make())

    def fastest(work: Callable[[], object]) -> float:
        took = []
        for _ in range(5):
            began = time.thread_time()
            work()
            took.append(time.thread_time() - began)
        return min(took)

    assert fastest(lambda: family.pixels(image)) < 2.5 * fastest(lambda: image.resize((SIDE, SIDE)))


@pytest.mark.parametrize(
    ("processor", "config", "length"),
    [
        ({}, {}, 64),
        ({"vision_feature_select_strategy": "full"}, {}, 65),
        ({"num_additional_image_tokens": 0}, {}, 63),
        ({"num_additional_image_tokens": 0, "vision_feature_select_strategy": "full"}, {}, 64),
        ({"patch_size": 16}, {}, 16),
        (dict.fromkeys(PROCESSOR), {}, 64),
        (dict.fromkeys(PROCESSOR), {"vision_feature_select_strategy": "full"}, 65),
        (
            dict.fromkeys(PROCESSOR),
            {
                "vision_feature_select_strategy": "full",
                "vision_config": {"model_type": "siglip_vision_model", "patch_size": 8},
            },
            64,
        ),
    ],
)
def test_a_picture_has_as_many_ids_as_features(
    processor: dict[str, Any], config: dict[str, Any], length: int, make: Make
) -> None:
    assert family_of(make(processor=processor, config=config)).length(SIDE, SIDE) == length


def test_a_picture_of_llava_1_5_has_576_ids(make: Make) -> None:
    family = family_of(make(processor={"patch_size": 14}))
    assert family.length(336, 336) == 576


@pytest.mark.parametrize(
    ("processor", "image_processor"),
    [({"image_processor": IMAGE_PROCESSOR}, dict.fromkeys(IMAGE_PROCESSOR)), ({}, {})],
    ids=["inside processor_config.json", "in a file of its own"],
)
def test_settings_are_found_where_transformers_writes_them(
    processor: dict[str, Any], image_processor: dict[str, Any], make: Make
) -> None:
    pixels = family_of(make(processor=processor, image_processor=image_processor)).pixels(picture())
    assert (pixels.height, pixels.width) == (SIDE, SIDE)


@pytest.mark.parametrize(
    ("config", "token"),
    [
        ({}, IMAGE),
        ({"image_token_index": None, "image_token_id": IMAGE_ID}, IMAGE),
        ({"image_token_index": None}, IMAGE),
        ({"boi_token_index": 2046}, "<think>"),
    ],
)
def test_the_word_for_a_picture_is_told_by_the_models_files(config: dict[str, Any], token: str, make: Make) -> None:
    found = pictures_of(make(config=config))
    assert (found.token, found.placeholder) == (token, token)


def test_what_stands_around_a_picture_belongs_to_it_in_a_text(make: Make) -> None:
    found = pictures_of(make(config={"vision_start_token_id": 2046, "vision_end_token_id": 2047}))
    assert (found.token, found.placeholder) == (IMAGE, "<think><image></think>")


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"model_type": "qwen2_vl"}},
        {"image_processor": {"image_processor_type": "PixtralImageProcessor"}},
        {"image_processor": {"image_processor_type": None}},
    ],
)
def test_what_another_family_makes_of_a_picture_is_not_known(changes: dict[str, Any], make: Make) -> None:
    found = pictures_of(make(**changes))
    assert (found.token, found.family) == (IMAGE, None)


def test_a_model_without_an_image_token_sees_nothing(tiny_chat: Path) -> None:
    assert load(tiny_chat).pictures is None


def test_a_bundle_with_broken_settings_is_no_tokenizer(make: Make) -> None:
    folder = make()
    (folder / "processor_config.json").write_text("{")
    with pytest.raises(BundleUnreadable):
        load(folder)


def test_models_with_the_same_settings_share_what_they_made_of_pictures(tmp_path: Path) -> None:
    one, same = (pictures_of(make_picture_model(tmp_path / name)) for name in ("one", "same"))
    other = pictures_of(make_picture_model(tmp_path / "other", processor={"patch_size": 16}))
    assert one.settings == same.settings != other.settings
    assert one.token_id == IMAGE_ID
    assert FEATURES == (SIDE // 8) ** 2
