"""Pure: the pictures among the ids of a prompt, as the tensors of `conch_contracts.dialects.tokens` that show them."""

from collections.abc import Sequence

from conch_contracts.dialects import tokens
from conch_contracts.messages.generation import PreparedPicture
from conch_kit.triton.tensors import pack

PackedTensor = tuple[str, str, tuple[int, ...], bytes]
"""A tensor's name, datatype, shape and packed elements."""

_CHANNELS = 3


def picture_tensors(pictures: Sequence[PreparedPicture]) -> list[PackedTensor]:
    """Return the tensors of these pictures, which are pixels, in the order of their places."""
    count = len(pictures)
    pixels = b"".join(picture.data for picture in pictures)
    shapes = [size for picture in pictures for size in (picture.height, picture.width, _CHANNELS)]
    spans = [number for picture in pictures for number in (picture.start, picture.length)]
    digests = [picture.digest.encode() for picture in pictures]
    return [
        (tokens.IMAGE_PIXELS, "UINT8", (len(pixels),), pixels),
        (tokens.IMAGE_SHAPES, "INT32", (count, _CHANNELS), pack("INT32", shapes)),
        (tokens.IMAGE_SPANS, "INT32", (count, 2), pack("INT32", spans)),
        (tokens.IMAGE_HASHES, "BYTES", (count,), pack("BYTES", digests)),
    ]
