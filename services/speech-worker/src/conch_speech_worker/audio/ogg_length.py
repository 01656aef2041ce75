"""How long an Ogg file says that it is: the position of its last page."""

import os

_PAGE = b"OggS"
_GRANULE = slice(6, 14)
_NONE = 2**64 - 1
"""The position of a page on which nothing ends."""
_TAIL_BYTES = 256 * 1024
"""Longer than three pages can be."""


def granule_of_last_page(file: int) -> int | None:
    """Return the position at the end of an open file, in its own samples; None where no page tells one."""
    size = os.fstat(file).st_size
    tail = os.pread(file, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    at = len(tail)
    while (at := tail.rfind(_PAGE, 0, at)) >= 0:
        header = tail[at : at + _GRANULE.stop]
        position = int.from_bytes(header[_GRANULE], "little")
        if len(header) == _GRANULE.stop and position < _NONE >> 1:
            return position
    return None
