"""Rows of an encoder that are pictures, and such that have one in them; each byte of a picture is the same."""

from conch_contracts.messages.encoding import Row, RowPicture
from conch_contracts.messages.generation import PreparedPicture

_ONES = (1.0, 1.0, 1.0)


def picture_row(byte: int, side: int) -> Row:
    """Return a row that is a picture of that height and width."""
    pixels = bytes([byte]) * (3 * side * side)
    return Row(ids=(), picture=RowPicture(pixels=pixels, height=side, width=side, scale=_ONES, shift=_ONES, length=5))


def row_with_picture(byte: int) -> Row:
    """Return a row of two ids, of which the first is a picture's."""
    picture = PreparedPicture(data=bytes([byte] * 3), height=1, width=1, start=0, length=1, digest="a")
    return Row(ids=(1, 1), pictures=(picture,))
