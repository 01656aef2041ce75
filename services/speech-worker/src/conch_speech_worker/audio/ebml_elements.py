"""The elements of a webm or a Matroska, as RFC 9559 has them: where the file ends that begins with them."""

from conch_speech_worker.audio.file_part import FilePart

_SEGMENT, _CLUSTER = 0x18538067, 0x1F43B675
_IN_SEGMENT = frozenset(
    {0x114D9B74, 0x1549A966, 0x1654AE6B, _CLUSTER, 0x1C53BB6B, 0x1941A469, 0x1043A770, 0x1254C367, 0xEC, 0xBF}
)
"""SeekHead, Info, Tracks, Cluster, Cues, Attachments, Chapters, Tags; Void and CRC-32 stand everywhere."""
_IN_CLUSTER = frozenset({0xE7, 0xA3, 0xA0, 0xAB, 0xA7, 0xAF, 0x5854})
"""Timestamp, SimpleBlock, BlockGroup, PrevSize, Position, EncryptedBlock, SilentTracks."""
_MOST_HEAD_BYTES = 12


def end_of_ebml(part: FilePart, at: int) -> tuple[int, int]:
    """Return where the last element begins of the file that begins here, and where that ends, by what it says itself.

    It may be cut, and the end lie behind that of the part, or in another file. Where the file tells its own end, both
    are that.
    """
    last = at
    while at < part.size:
        kind, size, head_bytes = _element(part.peek(at, _MOST_HEAD_BYTES))
        if last != at and kind != _SEGMENT and kind not in _IN_SEGMENT and kind not in _IN_CLUSTER:
            break
        last, at = at, at + head_bytes
        if kind == _SEGMENT and size is not None and at + size <= part.size:
            return at + size, at + size
        if kind not in (_SEGMENT, _CLUSTER) or (kind == _CLUSTER and size is not None):
            at += size if size is not None else part.size
    return last, at


def _element(head: bytes) -> tuple[int, int | None, int]:
    """Return the kind of an element, its size, None where it is not known, and the bytes of both."""
    kind_bytes = 9 - head[0].bit_length() if head else 1
    kind = int.from_bytes(head[:kind_bytes], "big")
    told = head[kind_bytes:]
    size_bytes = 9 - told[0].bit_length() if told else 1
    size = int.from_bytes(told[:size_bytes], "big") & (1 << 7 * size_bytes) - 1
    return kind, None if size == (1 << 7 * size_bytes) - 1 else size, kind_bytes + size_bytes
