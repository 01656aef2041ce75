"""What of a request is neither a field nor its body: empty lines and a request line before, and what frames chunks."""

from conch_kit.http_server.limits import EMPTY_LINES_BYTES, FRAMING_BYTES
from conch_kit.http_server.request_head import Fault

_LINE_END_BYTES = 16
"""Enough for a protocol, its version and the end of the line."""
_NOT_HTTP = 400, "Expected HTTP/1.1."
_EMPTY = 400, "Expected a request, found empty lines alone."
_FRAMED = (
    400,
    f"Expected a body in larger chunks: what frames them may have {FRAMING_BYTES} bytes more than they hold. "
    "Send chunks of some KiB without extensions, or a Content-Length.",
)


class Framing:
    """The framing of one request, as far as it has come."""

    __slots__ = ("_chunks_excess", "_empty_bytes", "_line_end", "body_pieces", "too_much")

    def __init__(self) -> None:
        self._empty_bytes = 0
        self._line_end = b""
        self._chunks_excess = 0
        self.body_pieces = 0
        """How many pieces of a body were in the piece that was taken last."""
        self.too_much: Fault | None = None
        """Why there is too much of it."""

    def take_head(self, piece: bytes) -> None:
        """Take a piece of a head, or of empty lines before it."""
        self.body_pieces = 0
        if self._line_end[-1:] == b"\n":
            return
        if not self._line_end and piece[0] in b"\r\n":
            self._empty_bytes += len(piece)
            if self._empty_bytes > EMPTY_LINES_BYTES:
                self.too_much = _EMPTY
            return
        end = piece.find(b"\n") + 1
        self._line_end = (self._line_end + (piece[:end] if end else piece))[-_LINE_END_BYTES:]

    def end_head(self) -> Fault | None:
        """Begin with the body; return what is wrong with the request line. The parser takes RTSP's and ICE's too."""
        fault = None if b" HTTP/" in self._line_end else _NOT_HTTP
        self._line_end, self._empty_bytes, self._chunks_excess = b"", 0, 0
        return fault

    def take_body(self, piece: bytes) -> None:
        """Take a piece of what comes behind the head; what was in the one before is counted now."""
        self.body_pieces = 0
        if self._chunks_excess > FRAMING_BYTES:
            self.too_much = _FRAMED
        self._chunks_excess += len(piece)

    def pass_body(self, size: int) -> None:
        """Hear that so many bytes of it are a piece of the body."""
        self.body_pieces += 1
        self._chunks_excess -= 2 * size
