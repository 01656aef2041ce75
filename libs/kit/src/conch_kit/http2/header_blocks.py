"""Header blocks (HPACK, RFC 7541) without state: this client allows no dynamic table, so equal bytes say equal things.

That lets a block that was seen before be answered from memory; a server's heads and trailers hardly differ.
"""

from collections.abc import Iterable

from hpack import Decoder, Encoder, HPACKError, NeverIndexedHeaderTuple

from conch_kit.http2.errors import ProtocolViolation
from conch_kit.http2.frames import ErrorCode
from conch_kit.http2.limits import MAX_CONTINUATIONS

MAX_BLOCK_BYTES = 64 * 1024
_FIELD_BYTES = 32
"""What a field counts for beside its name and value (RFC 7541, section 4.1)."""
_TABLE_TO_NOTHING = b"\x20"
"""The one change of the dynamic table's size that is allowed (RFC 7541, section 6.3)."""
_REMEMBERED = 256
_REMEMBERED_BYTES = 1024

Headers = dict[str, str]


class OpenBlock:
    """A header block that comes in pieces, each a frame."""

    __slots__ = ("_pieces", "last", "stream", "whole")

    def __init__(self, stream: int, *, last: bool) -> None:
        self.stream = stream
        self.last = last
        """Whether it is the last of its stream."""
        self.whole = b""
        """What has come of it."""
        self._pieces = 0

    def add(self, piece: bytes) -> None:
        """Take the next piece; raise ProtocolViolation when there are too many, or they are too long."""
        if self._pieces > MAX_CONTINUATIONS:
            raise ProtocolViolation("A header block is in too many pieces.", ErrorCode.ENHANCE_YOUR_CALM)
        self._pieces += 1
        self.whole += piece
        if len(self.whole) > MAX_BLOCK_BYTES:
            raise ProtocolViolation("A header block is too long.", ErrorCode.ENHANCE_YOUR_CALM)


class BlockReader:
    """Reads the header blocks of one connection."""

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=MAX_BLOCK_BYTES)
        self._decoder.max_allowed_table_size = 0
        self._known: dict[bytes, tuple[Headers, int]] = {}

    def read(self, block: bytes) -> tuple[Headers, int]:
        """Return what a block says, and as how many short fields it is read; raise ProtocolViolation when it is broken.

        Of a name that comes twice the last value is said.
        """
        known = self._known.get(block)
        if known is not None:
            return known
        if block.startswith(_TABLE_TO_NOTHING * 3):  # at most twice (RFC 7541, section 4.2); each is work
            raise ProtocolViolation("A header block changes the table's size on and on.", ErrorCode.ENHANCE_YOUR_CALM)
        try:
            fields = list(self._decoder.decode(block, raw=True))
        except HPACKError as error:
            raise ProtocolViolation(f"A header block is broken: {error}.", ErrorCode.COMPRESSION_ERROR) from error
        said = {_text(name): _text(value) for name, value in fields}
        size = sum(_FIELD_BYTES + len(name) + len(value) for name, value in fields)
        read = said, size // _FIELD_BYTES
        if len(block) <= _REMEMBERED_BYTES:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[block] = read
        return read


def write_block(headers: Iterable[tuple[str, str]]) -> bytes:
    """Return a block that any peer reads, whatever it has read before."""
    return Encoder().encode([NeverIndexedHeaderTuple(name, value) for name, value in headers])


def literal(name: bytes, value: bytes) -> bytes:
    """Return one header as the end of a block, both parts shorter than 127 bytes: cheaper than `write_block`."""
    return b"\x10" + bytes((len(name),)) + name + bytes((len(value),)) + value


def _text(part: bytes) -> str:
    return part.decode("utf-8", "replace")
