"""A stretch of an open file, as a file of its own."""

import io
import os
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class FilePart(io.RawIOBase):
    """Reads by position: it neither moves the descriptor's own place nor closes it."""

    def __init__(
        self, file: int, start: int = 0, end: int | None = None, *, before: bytes = b"", behind: bytes = b""
    ) -> None:
        """Without an end it goes as far as the file; what is `before` and `behind` it is as if it stood there."""
        super().__init__()
        self._file = file
        self._start = start
        self._stretch = (os.fstat(file).st_size if end is None else end) - start
        self._before, self._behind = before, behind
        self.size = len(before) + self._stretch + len(behind)
        """Its bytes."""
        self._at = 0

    def part(self, start: int, end: int, *, before: bytes = b"", behind: bytes = b"") -> Self:
        """Return a stretch of one that is nothing else, with something before and behind it."""
        first, last = self._start + start, self._start + min(end, self._stretch)
        return type(self)(self._file, first, last, before=before, behind=behind)

    def peek(self, at: int, size: int) -> bytes:
        """Return up to so many bytes that stand there; fewer at the end, and none behind it."""
        found = self._before[at : at + size]
        at, size = max(0, at - len(self._before)), size - len(found)
        here = min(size, self._stretch - at)
        if here > 0:
            found += os.pread(self._file, here, self._start + at)
            size -= here
        at = max(0, at - self._stretch)
        return found + self._behind[at : at + size] if size else found

    # --- what libraries ask of a file --------------------------------------------------------------

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def seekable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill a buffer with what comes next, and return how many bytes that are."""
        room = memoryview(buffer)
        found = self.peek(self._at, len(room))
        room[: len(found)] = found
        self._at += len(found)
        return len(found)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go on elsewhere, and return where that is."""
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, origin + offset)
        return self._at

    def tell(self) -> int:
        """Return where it goes on."""
        return self._at
