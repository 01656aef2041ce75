"""Files of pictures as an image processor sees them: upright, on white, then at the tower's size."""

from io import BytesIO

import numpy as np
from PIL import Image, ImageOps
from transformers import CLIPImageProcessorPil

from models.drawings.pictures import Pixels


def decoded(content: bytes) -> Image.Image:
    """Return a file's first picture, upright, in RGB, with white behind what is transparent."""
    with Image.open(BytesIO(content)) as opened:
        upright = ImageOps.exif_transpose(opened)
        if not upright.has_transparency_data:
            return upright.convert("RGB")
        layered = upright.convert("RGBA")
    ground = Image.new("RGBA", layered.size, (255, 255, 255, 255))
    return Image.alpha_composite(ground, layered).convert("RGB")


def processed(processor: CLIPImageProcessorPil, picture: Image.Image) -> Pixels:
    """Return the pixels that the processor would hand on, before it turns them into numbers around 0."""
    made = processor(picture, do_rescale=False, do_normalize=False, return_tensors="np")["pixel_values"]
    pixels: Pixels = np.ascontiguousarray(np.moveaxis(made[0], 0, -1)).astype(np.uint8)
    return pixels
