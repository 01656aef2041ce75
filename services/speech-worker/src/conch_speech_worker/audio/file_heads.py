"""Where files of sound begin within a larger one: by more of their first bytes than chance brings together."""

import re

from conch_speech_worker.audio.file_format import HEAD_BYTES, FileFormat, format_of
from conch_speech_worker.audio.file_part import FilePart
from conch_speech_worker.audio.mpeg_frames import FRAME_HEADER_BYTES, frame_header, is_sure_frame

_SEARCHED_BYTES = 64 * 1024
_MARK_BYTES = 16
"""No mark that is looked for is longer, with what stands before it."""
_HEADS = {
    FileFormat.FLAC: re.compile(rb"fLaC[\x00\x80]\x00\x00\x22"),
    FileFormat.OGG: re.compile(rb"OggS\x00\x02"),
    FileFormat.MP4: re.compile(rb"\0\0[\0-\x0f].ftyp[ -~]{4}", re.DOTALL),
    FileFormat.WEBM: re.compile(rb"\x1a\x45\xdf\xa3.{1,48}?\x42\x82.(?:webm|matroska)", re.DOTALL),
}
"""Of FLAC with the head of the first block, which has one length; of Ogg with the first page of a stream."""
_MARKS = rb"RIF[FX]|RF64|fLaC|OggS\x00\x02|ftyp|\x1a\x45\xdf\xa3"
_BEFORE_FTYP = 4
_HEAD = re.compile(_MARKS)
_HEAD_OR_FRAME = re.compile(
    _MARKS + rb"|ID3[\x02-\x04]\x00|\xff(?=[\xe2-\xe7\xf2-\xf7\xfa-\xff][\x10-\xef]|[\xf0\xf1\xf8\xf9])"
)
"""What the others begin with: frames alone, or a tag before them. In quiet samples of a wav little looks so.

Where chance makes a frame of the last bytes of a file, the next one begins within its header.
"""
_LONGEST_LYRICS_BYTES = 1024 * 1024
_END_OF_LYRICS = re.compile(rb"LYRICS200|LYRICSEND")


def next_head(part: FilePart, at: int, end: int) -> int:
    """Return where the next file with a head begins from there on; the end where none does before it."""
    return _next(part, at, end, _HEAD)


def next_file(part: FilePart, at: int, end: int) -> int:
    """Return where the next file begins from there on, be it frames alone; the end where none does before it."""
    return _next(part, at, end, _HEAD_OR_FRAME)


def _next(part: FilePart, start: int, end: int, mark: re.Pattern[bytes]) -> int:
    at, end = start, min(end, part.size)
    while at < end:
        piece = part.peek(at, min(_SEARCHED_BYTES, end - at + _MARK_BYTES))
        for found in mark.finditer(piece):
            place = at + found.start() - (_BEFORE_FTYP if found[0] == b"ftyp" else 0)
            if start <= place < end and _may_begin(piece, found.start()) and is_beginning(part, place):
                return place
        if len(piece) < _SEARCHED_BYTES:
            break
        at += len(piece) - _MARK_BYTES
    return end


def _may_begin(piece: bytes, at: int) -> bool:
    """Tell without a look at the file what frames alone cannot be: the next one stands where the first one ends."""
    if piece[at] != 0xFF:
        return True
    found = frame_header(piece[at : at + FRAME_HEADER_BYTES])
    if found is None:
        return at + FRAME_HEADER_BYTES > len(piece)
    following = at + found.size
    return following >= len(piece) or piece[following] == 0xFF


def is_beginning(part: FilePart, at: int) -> bool:
    """Tell whether a file of sound begins here, maybe with tags in front."""
    while part.peek(at, 3) == b"ID3":
        tag_bytes = tag_at(part, at)
        if not tag_bytes:
            return False
        at += tag_bytes
    head = part.peek(at, 64)
    found = format_of(head)
    if found in (FileFormat.MP3, FileFormat.AAC):
        return is_sure_frame(part, at)
    return found is FileFormat.WAV or (found is not None and _HEADS[found].match(head) is not None)


def tag_at(part: FilePart, at: int) -> int:
    """Return how long the tag is that stands here; 0 where there is none, or it says that it goes on behind the end."""
    head = part.peek(at, HEAD_BYTES)
    size = _tag_bytes(part, at, head)
    return size if at + size <= part.size else 0


def _tag_bytes(part: FilePart, at: int, head: bytes) -> int:
    if head[:3] == b"ID3" and len(head) > 9:
        size = 0
        for byte in head[6:10]:
            size = size << 7 | byte & 0x7F
        return 10 + size + (10 if head[5] & 0x10 else 0)
    if head[:3] == b"TAG":
        return 227 if head[3:4] == b"+" else 128
    if head[:8] == b"APETAGEX":
        return 32 + int.from_bytes(head[12:16], "little")
    if head[:11] == b"LYRICSBEGIN" and (end := _END_OF_LYRICS.search(part.peek(at, _LONGEST_LYRICS_BYTES))):
        return end.end()
    return 0
