"""How one model sees pictures, as its files say: what stands for one, how large it gets, and how many ids it has.

How many ids a picture has is counted here by a function for each family of models, because transformers' own
processors want torch for most of them; tests compare with theirs. Pixels come from transformers' processors that work
with Pillow. These are named: what transformers would choose by itself depends on what else is installed, and others
resize differently.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from PIL import Image
from transformers import PreTrainedTokenizerBase
from transformers.image_processing_backends import PilBackend
from transformers.image_transforms import get_resize_output_image_size
from transformers.image_utils import ChannelDimension
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from conch_tokenizer.errors import BundleUnreadable

Settings = Mapping[str, Any]

_FILES: Final = ("config.json", "processor_config.json", "preprocessor_config.json")
_PROCESSORS: Final[Mapping[str, type[PilBackend]]] = {
    "CLIPImageProcessor": CLIPImageProcessorPil,
    "LlavaImageProcessor": LlavaImageProcessorPil,
    "SiglipImageProcessor": SiglipImageProcessorPil,
}


@dataclass(frozen=True, slots=True)
class Pixels:
    """A picture as an engine of pixels takes it."""

    data: bytes
    """RGB, row by row."""
    height: int
    width: int


class PictureFamily(Protocol):
    """What models of one kind make of a picture."""

    def pixels(self, image: Image.Image) -> Pixels:
        """Return an RGB picture as large as the model sees it, not normalised yet."""
        ...

    def length(self, height: int, width: int) -> int:
        """Return how many ids a picture of that size has."""
        ...


class Llava:
    """Models that see a picture as one grid of patches."""

    def __init__(self, config: Settings, processor: Settings, image_processor: PilBackend) -> None:
        """Make one of the files `config.json` and `processor_config.json`."""
        vision = config.get("vision_config") or {}
        strategy = processor.get("vision_feature_select_strategy") or config.get("vision_feature_select_strategy")
        extra = processor.get("num_additional_image_tokens")
        self._patch = int(processor.get("patch_size") or vision["patch_size"])
        self._beside = (_class_tokens(vision) if extra is None else int(extra)) - (strategy in ("default", None))
        self._image_processor = image_processor

    def pixels(self, image: Image.Image) -> Pixels:
        """Return an RGB picture as large as the model sees it, not normalised yet."""
        processor: Any = self._image_processor
        size = _first_size(image, processor)
        if size is not None:  # the processor would do it behind two copies of all of a large picture
            image = image.resize(size, processor.resample)
        resize = processor.do_resize and size is None
        processed = processor(image, do_resize=resize, do_rescale=False, do_normalize=False)
        channels_last = np.moveaxis(np.asarray(processed["pixel_values"][0]), 0, -1)
        if channels_last.dtype != np.uint8:
            raise BundleUnreadable(f"the picture processor makes {channels_last.dtype}, where uint8 was expected")
        height, width, _ = channels_last.shape
        return Pixels(channels_last.tobytes(), height, width)

    def length(self, height: int, width: int) -> int:
        """Return how many ids a picture of that size has."""
        return (height // self._patch) * (width // self._patch) + self._beside


@dataclass(frozen=True, slots=True)
class ModelPictures:
    """How one model sees pictures."""

    token: str
    """What an id of a picture is in text."""
    token_id: int
    placeholder: str
    """What stands for one picture where a template takes nothing but text."""
    family: PictureFamily | None
    """None: only the model's engine knows what it makes of a picture."""
    settings: str
    """Equal ones make the same of a picture."""


@dataclass(frozen=True, slots=True)
class PictureSettings:
    """What the files of a bundle say of pictures."""

    config: Settings
    processor: Settings
    image: Settings

    @property
    def digest(self) -> str:
        """Return what tells these settings from others."""
        return hashlib.sha256(json.dumps([self.config, self.processor, self.image]).encode()).hexdigest()


def read_settings(folder: Path) -> PictureSettings:
    """Return what the files of a folder say; raises what a wrong file makes of it."""
    return PictureSettings(*(_read(folder / name) for name in _FILES))


def image_processor(settings: PictureSettings) -> PilBackend | None:
    """Return what makes pixels of pictures as these settings say; None where it is not known here."""
    said = settings.processor.get("image_processor") or settings.image
    name = said.get("image_processor_type") or said.get("feature_extractor_type") or ""
    found = _PROCESSORS.get(name.replace("FeatureExtractor", "ImageProcessor").removesuffix("Fast").removesuffix("Pil"))
    return None if found is None else found.from_dict(dict(said))


def model_pictures(folder: Path, tokenizer: PreTrainedTokenizerBase) -> ModelPictures | None:
    """Return how the model in a folder sees pictures; None when it sees none. Raises what a wrong file makes of it."""
    settings = read_settings(folder)
    config = settings.config
    token = _token(config, settings.processor, tokenizer)
    if token is None:
        return None
    before, after = (_word(config.get(name), tokenizer) for name in ("vision_start_token_id", "vision_end_token_id"))
    return ModelPictures(
        token=token,
        token_id=tokenizer.get_vocab()[token],
        placeholder=f"{before or ''}{token}{after or ''}",
        family=_family(settings),
        settings=settings.digest,
    )


def _token(config: Settings, processor: Settings, tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Return the word that stands for a picture in a rendered prompt."""
    for name in (
        "boi_token_index",
        "image_token_id",
        "image_token_index",
    ):  # a frame of pictures goes before its inside
        if (found := _word(config.get(name), tokenizer)) is not None:
            return found
    named = processor.get("image_token")
    return named if isinstance(named, str) and named in tokenizer.get_vocab() else None


def _word(number: object, tokenizer: PreTrainedTokenizerBase) -> str | None:
    found = tokenizer.convert_ids_to_tokens(number) if isinstance(number, int) else None
    return found if isinstance(found, str) else None


def _family(settings: PictureSettings) -> PictureFamily | None:
    found = image_processor(settings)
    if settings.config.get("model_type") != "llava" or found is None:
        return None
    return Llava(settings.config, settings.processor, found)


def _first_size(image: Image.Image, processor: Any) -> tuple[int, int] | None:
    """Return the width and height to which a processor brings a picture before anything else; None where it does not.

    What it says of its size otherwise is left to it.
    """
    size = processor.size
    pads_first = isinstance(processor, LlavaImageProcessorPil) and processor.do_pad
    if not processor.do_resize or pads_first or size.longest_edge:
        return None
    if size.shortest_edge:
        shape = np.broadcast_to(np.uint8(0), (3, image.height, image.width))
        height, width = get_resize_output_image_size(
            shape, size.shortest_edge, default_to_square=False, input_data_format=ChannelDimension.FIRST
        )
        return width, height
    return (size.width, size.height) if size.height and size.width else None


def _class_tokens(vision: Settings) -> int:
    """Return how many features stand beside those of patches."""
    return 1 if vision.get("model_type", "clip_vision_model") == "clip_vision_model" else 0


def _read(file: Path) -> Settings:
    if not file.is_file():
        return {}
    found = json.loads(file.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}
