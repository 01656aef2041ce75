"""The files of which a file is made: `cat one.mp3 two.mp3` makes one of which libraries read the first alone.

Most files are one. What stands between two and is no sound, such as tags and zeros, is passed over.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from conch_speech_worker.audio.file_format import HEAD_BYTES, FileFormat, format_of, readable_format
from conch_speech_worker.audio.file_part import FilePart
from conch_speech_worker.audio.mpeg_frames import HEAD_BYTES as MPEG_HEAD_BYTES
from conch_speech_worker.audio.mpeg_frames import mpeg_head
from conch_speech_worker.audio.ogg_pages import link_at

_LOOKED_AT_BYTES = 64 * 1024
_FLAC = re.compile(rb"fLaC[\x00\x80]\x00\x00\x22")
"""With the head of the first block, which has one length."""
_WEBM = re.compile(rb"\x1a\x45\xdf\xa3.{1,48}?\x42\x82.(?:webm|matroska)", re.DOTALL)


def parts_of(file: int, readable: Collection[FileFormat]) -> Iterator[tuple[FileFormat, FilePart]]:
    """Yield the files of sound in an open file, with their formats; raises FileRefused for what is not readable."""
    whole = FilePart(file)
    at = _sound_from(whole, 0) or 0
    while True:
        found = readable_format(whole.peek(at, HEAD_BYTES), readable)
        end = _END_OF[found](whole, at)
        following = _sound_from(whole, end)
        yield found, whole.part(at, whole.size if following is None else end)
        if following is None:
            return
        at = following


def _sound_from(whole: FilePart, at: int) -> int | None:
    """Return where a file of sound begins, here or behind tags; None where none does."""
    while head := whole.peek(at, HEAD_BYTES):
        passed_over = _tag_bytes(head)
        if not passed_over:
            if format_of(head):
                return at
            passed_over = _zeros(whole, at)
        if not passed_over:
            return None
        at += passed_over
    return None


def _zeros(whole: FilePart, at: int) -> int:
    """Return how many zeros stand here, of those that are looked at together."""
    found = whole.peek(at, _LOOKED_AT_BYTES)
    return len(found) - len(found.lstrip(b"\0"))


def _tag_bytes(head: bytes) -> int:
    """Return how long the tag is that stands here; 0 where there is none."""
    if head[:3] == b"ID3" and len(head) > 9:
        size = 0
        for byte in head[6:10]:
            size = size << 7 | byte & 0x7F
        return 10 + size + (10 if head[5] & 0x10 else 0)
    if head[:3] == b"TAG":
        return 227 if head[3:4] == b"+" else 128
    if head[:8] == b"APETAGEX":
        return 32 + int.from_bytes(head[12:16], "little")
    return 0


def _end_of_wav(whole: FilePart, at: int) -> int:
    head = whole.peek(at, 28)
    size = int.from_bytes(head[4:8], "big" if head[:4] == b"RIFX" else "little")
    if head[:4] == b"RF64" and head[12:16] == b"ds64":
        size = int.from_bytes(head[20:28], "little")
    end = at + 8 + size
    return end if size % 2 == 0 or format_of(whole.peek(end, HEAD_BYTES)) else end + 1


def _end_of_flac(whole: FilePart, at: int) -> int:
    return whole.find(_FLAC, at + 1)


def _end_of_ogg(whole: FilePart, at: int) -> int:
    pages = link_at(whole, at)
    has_next, is_cut = pages.end < whole.size, whole.peek(pages.whole_to, 4) == b"OggS"
    return pages.end if has_next or is_cut else pages.whole_to


def _end_of_mp3(whole: FilePart, at: int) -> int:
    """Return the end that the first frame tells; without one all frames are read as one file."""
    told = mpeg_head(whole.peek(at, MPEG_HEAD_BYTES)).told_bytes
    return at + told if told else whole.size


def _end_of_mp4(whole: FilePart, at: int) -> int:
    has_film = False
    while len(head := whole.peek(at, 16)) >= 8:
        size, kind = int.from_bytes(head[:4], "big"), head[4:8]
        if has_film and format_of(head):
            return at
        has_film = has_film or kind == b"moov"
        if size == 1:
            size = int.from_bytes(head[8:16], "big")
        if size < 8:  # 0 says that it goes to the end
            break
        at += size
    return whole.size


def _end_of_webm(whole: FilePart, at: int) -> int:
    return whole.find(_WEBM, at + 1)


def _end_of_aac(whole: FilePart, at: int) -> int:
    """Return the end of all: it is frames alone."""
    return whole.size


_END_OF: Mapping[FileFormat, Callable[[FilePart, int], int]] = {
    FileFormat.WAV: _end_of_wav,
    FileFormat.FLAC: _end_of_flac,
    FileFormat.OGG: _end_of_ogg,
    FileFormat.MP3: _end_of_mp3,
    FileFormat.MP4: _end_of_mp4,
    FileFormat.WEBM: _end_of_webm,
    FileFormat.AAC: _end_of_aac,
}
