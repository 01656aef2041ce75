"""A stretch of an open file, as a file of its own."""

import io
import os
import re
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_SEARCHED_BYTES = 1024 * 1024
_MARK_BYTES = 128
"""No mark that is looked for is longer."""


class FilePart(io.RawIOBase):
    """Reads by position: it neither moves the descriptor's own place nor closes it."""

    def __init__(self, file: int, start: int = 0, end: int | None = None) -> None:
        """Without an end it goes as far as the file."""
        super().__init__()
        self._file = file
        self._start = start
        self.size = (os.fstat(file).st_size if end is None else end) - start
        """Its bytes."""
        self._at = 0

    def part(self, start: int, end: int) -> Self:
        """Return a stretch of this one."""
        return type(self)(self._file, self._start + start, self._start + min(end, self.size))

    def peek(self, at: int, size: int) -> bytes:
        """Return up to so many bytes that stand there; fewer at the end, and none behind it."""
        size = min(size, self.size - at)
        return os.pread(self._file, size, self._start + at) if size > 0 else b""

    def find(self, mark: re.Pattern[bytes], at: int) -> int:
        """Return where a mark stands from there on; its end where there is none."""
        while piece := self.peek(at, _SEARCHED_BYTES):
            if found := mark.search(piece):
                return at + found.start()
            if len(piece) < _SEARCHED_BYTES:
                break
            at += len(piece) - _MARK_BYTES
        return self.size

    # --- what libraries ask of a file --------------------------------------------------------------

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def seekable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill a buffer with what comes next, and return how many bytes that are."""
        room = memoryview(buffer)[: max(0, self.size - self._at)]
        count = os.preadv(self._file, [room], self._start + self._at) if room else 0
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go on elsewhere, and return where that is."""
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, origin + offset)
        return self._at

    def tell(self) -> int:
        """Return where it goes on."""
        return self._at
