"""Pictures for a model that makes vectors of texts and of pictures, each by itself: a picture is a row of its own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conch_contracts.messages.encoding import Row, RowPicture
from conch_contracts.messages.tokenization import Picture
from conch_kit.errors import InvalidRequest
from conch_tokenizer.errors import BundleUnreadable
from conch_tokenizer.pictures.model_pictures import Llava, PictureFamily, image_processor, read_settings
from conch_tokenizer.pictures.picture_reader import MOST_BYTES, PictureOrder, PictureReader, no_pictures

_MODEL_TYPE: Final = "clip"

Channels = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class RowPictures:
    """How one such model sees pictures."""

    family: PictureFamily
    settings: str
    """Equal ones make the same of a picture."""
    scale: Channels
    shift: Channels
    """What the model was trained on are the bytes of each channel times its `scale` plus its `shift`."""

    def row(self, index: int, picture: Picture, reader: PictureReader, order: PictureOrder) -> Row:
        """Return the row of a request's picture of this index; raises InvalidRequest."""
        read = reader.read(index, picture, self, order)
        seen = RowPicture(
            pixels=read.data,
            height=read.height,
            width=read.width,
            scale=self.scale,
            shift=self.shift,
            length=read.length,
        )
        return Row(ids=(), picture=seen)


def row_pictures(folder: Path) -> RowPictures | None:
    """Return how the model in a folder sees pictures that are rows; None for other models.

    Raises what a wrong file makes of it.
    """
    settings = read_settings(folder)
    processor = image_processor(settings)
    if settings.config.get("model_type") != _MODEL_TYPE or processor is None:
        return None
    # All of the tower counts: the position that stands for the whole picture, and each patch.
    config = {"vision_config": {"patch_size": 32} | (settings.config.get("vision_config") or {})}
    scale, shift = _normalisation(processor)
    return RowPictures(
        Llava({**config, "vision_feature_select_strategy": "full"}, {}, processor), settings.digest, scale, shift
    )


def rows_of_pictures(
    model: RowPictures | None, pictures: tuple[Picture, ...], reader: PictureReader, order: PictureOrder
) -> list[Row]:
    """Return the rows of a request's pictures; raises InvalidRequest for a model that makes none, and for too many."""
    rows, size = list[Row](), 0
    for index, picture in enumerate(pictures):
        if model is None or order.limits is None:
            raise no_pictures(picture)
        row = model.row(index, picture, reader, order)
        size += 0 if row.picture is None else len(row.picture.pixels)
        if size > MOST_BYTES:
            raise InvalidRequest(
                f"expected at most {index} pictures of this size in one request, found {len(pictures)}",
                param=picture.param,
                code="too_complex",
            )
        rows.append(row)
    return rows


def _normalisation(processor: Any) -> tuple[Channels, Channels]:
    factor = float(processor.rescale_factor) if processor.do_rescale else 1.0
    if not processor.do_normalize:
        return (factor, factor, factor), (0.0, 0.0, 0.0)
    mean, std = [*map(float, processor.image_mean)], [*map(float, processor.image_std)]
    if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
        raise BundleUnreadable(f"pictures are normalised by {mean} and {std}, where three numbers were expected")
    red, green, blue = (factor / one for one in std)
    of_red, of_green, of_blue = (-middle / one for middle, one in zip(mean, std, strict=True))
    return (red, green, blue), (of_red, of_green, of_blue)
