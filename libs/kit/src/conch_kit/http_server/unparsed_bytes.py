"""What a caller has sent and the parser has not seen, in pieces, so that the parser can stop behind a request."""

import re

from conch_kit.http_server.limits import PAGE_BYTES

_EMPTY_LINE = b"\r\n\r\n"
_LINE_ENDS = re.compile(rb"[\r\n]+")
_LINE_END_BYTES = b"\r\n"


class UnparsedBytes:
    """The bytes of one connection, of which no piece goes on behind the end of a head or of a request.

    The parser takes all that it is given and does not tell where in it a request ends. A head ends with an empty line,
    and so does a body in chunks, of both of which a piece is a page at most; where another body ends, its head says.
    """

    __slots__ = ("_at", "body_left", "waiting")

    def __init__(self) -> None:
        self.body_left = 0
        """How much is to come of a body whose length is known."""
        self.waiting = b""
        """What was read, until the parser has all of it."""
        self._at = 0

    def add(self, data: bytes) -> None:
        """Take what has come."""
        if self.waiting:
            data = self.waiting[self._at :] + data
            self._at = 0
        self.waiting = data

    def clear(self) -> None:
        """Forget what waits."""
        self.waiting, self._at = b"", 0

    def next_piece(self) -> bytes:
        """Give the next piece away; there must be one."""
        data, at = self.waiting, self._at
        if self.body_left:
            end = min(len(data), at + self.body_left)
            self.body_left -= end - at
        elif data[at] in _LINE_END_BYTES:
            end = self._behind_line_ends()
        else:
            end = min(len(data), at + PAGE_BYTES)
            found = data.find(_EMPTY_LINE, at, end)
            end = found + len(_EMPTY_LINE) if found >= 0 else end
        if end == len(data):
            self.waiting, self._at = b"", 0
            return data[at:] if at else data
        self._at = end
        return data[at:end]

    def _behind_line_ends(self) -> int:
        # The first of them may be the rest of an empty line of which the beginning came with what was read before.
        if self._at < len(_EMPTY_LINE):
            return self._at + 1
        found = _LINE_ENDS.match(self.waiting, self._at)
        return found.end() if found else len(self.waiting)
