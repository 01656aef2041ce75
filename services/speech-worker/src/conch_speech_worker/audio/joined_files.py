"""The files of which a file is made: `cat one.mp3 two.mp3` makes one of which libraries read the first alone.

Most files are one. Between two and behind the last there may be tags, zeros, and a little that nobody knows; where
there is more of that, it may be sound that would be lost.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from conch_speech_worker.audio.ebml_elements import end_of_ebml
from conch_speech_worker.audio.file_bounds import FileRefused, SoundLength
from conch_speech_worker.audio.file_format import HEAD_BYTES, FileFormat, format_of, readable_format
from conch_speech_worker.audio.file_heads import is_beginning, next_file, next_head, tag_at
from conch_speech_worker.audio.file_part import FilePart
from conch_speech_worker.audio.flac_frames import last_frame, may_end_at
from conch_speech_worker.audio.mpeg_frames import frames_at
from conch_speech_worker.audio.ogg_pages import MOST_PAGE_BYTES, link_at
from conch_speech_worker.audio.wav_head import wav_head

_LOOKED_AT_BYTES = 64 * 1024
_MOST_UNKNOWN_BYTES = 4096
"""What nobody knows is passed over where it is no more than that."""
_ZEROS_OF_MP4 = 3
_LAST_ZEROS = 64
"""More zeros are not at the end of a frame of FLAC."""
_TELLS_END = (FileFormat.WAV, FileFormat.MP4, FileFormat.WEBM)
_MP4_BOXES = frozenset(
    (b"ftyp moov moof mdat free skip wide uuid sidx ssix styp mfra meta meco pdin emsg prft udta pnot junk").split()
)


def parts_of(file: int, readable: Collection[FileFormat], length: SoundLength) -> Iterator[tuple[FileFormat, FilePart]]:
    """Yield the files of sound in an open file, with their formats; `length` is what has been heard of them.

    Raises FileRefused for what is not readable, and where something stands that is neither sound nor known.
    """
    whole = FilePart(file)
    at: int | None = _first_of(whole)
    while at is not None:
        found = readable_format(whole.peek(at, HEAD_BYTES), readable)
        end = _END_OF[found](whole, at)
        yield found, whole.part(at, end)
        held_from = max(at + HEAD_BYTES, end - _MOST_UNKNOWN_BYTES) if found in _TELLS_END else end
        at = _next_of(whole, held_from, end, length)


def _first_of(whole: FilePart) -> int:
    """Return where sound begins; the beginning of all where nothing is known of it."""
    at = _behind_tags(whole, 0)
    return at if format_of(whole.peek(at, HEAD_BYTES)) else 0


def _next_of(whole: FilePart, held_from: int, end: int, length: SoundLength) -> int | None:
    """Return where the next file begins; None where none does, and raises FileRefused where that is not known.

    Where a file is cut that tells its end, that is within the next one: frames from `held_from` on go on behind it.
    """
    at = _behind_tags(whole, end)
    # An mp4 begins with zeros of its own.
    following = next_file(whole, max(end, at - _ZEROS_OF_MP4), at + _MOST_UNKNOWN_BYTES)
    within_at = next_file(whole, held_from, end)
    within = frames_at(whole, within_at) if within_at < end else None
    if within is None or within.end <= end:
        if following == whole.size:
            return None
        if is_beginning(whole, following):
            return _behind_tags(whole, following)
    raise FileRefused(
        "invalid_audio",
        f"After about {length.heard_s:.0f} seconds something stands in the file that is no sound, and more may follow "
        "it. Send files that are joined one by one, or convert the file to flac, mp3 or wav.",
    )


def _behind_tags(whole: FilePart, at: int) -> int:
    while passed_over := tag_at(whole, at) or _zeros(whole, at):
        at += passed_over
    return at


def _zeros(whole: FilePart, at: int) -> int:
    """Return how many zeros stand here, of those that are looked at together."""
    found = whole.peek(at, _LOOKED_AT_BYTES)
    return 0 if format_of(found[:HEAD_BYTES]) else len(found) - len(found.lstrip(b"\0"))


def _end_of_wav(whole: FilePart, at: int) -> int:
    """Return the end that is told, where a file may end; else where another begins, since its own may be missing."""
    end = wav_head(whole, at).end
    if end is None or end > whole.size:
        return next_file(whole, at + HEAD_BYTES, whole.size)
    return end if _may_end(whole, end) else next_file(whole, at + HEAD_BYTES, end)


def _may_end(whole: FilePart, at: int) -> bool:
    """Tell whether nothing follows there but tags and zeros, or another file behind them."""
    following = _behind_tags(whole, at)
    return following == whole.size or is_beginning(whole, following)


def _end_of_flac(whole: FilePart, at: int) -> int:
    """Return where the last frame ends, by its checksum; where that is damaged or missing, where another file begins.

    Frames of FLAC are looked for first, since much in them looks like those of others.
    """
    frames = at + 4
    while len(head := whole.peek(frames, 4)) == 4:
        frames += 4 + int.from_bytes(head[1:], "big")
        if head[0] & 0x80:
            break
    start = frames if frames <= whole.size else at + 4
    end = next_head(whole, start, whole.size)
    last = last_frame(whole, start, end)
    if last is None:
        return _before_zeros(whole, start, next_file(whole, start, end))
    told = next((place for place in may_end_at(whole, last, end) if _may_end(whole, place)), None)
    if told is None:
        return _before_zeros(whole, last.at, next_file(whole, last.at + 1, end))
    return _behind_checksum(whole, told)


def _behind_checksum(whole: FilePart, at: int) -> int:
    """Return the end of a frame whose checksum fits from here on: zeros may be its last bytes, and of the samples."""
    for place in range(at, at + _LAST_ZEROS):
        head = whole.peek(place, HEAD_BYTES)
        if not head.startswith(b"\0") or format_of(head):
            return place
    return at + _LAST_ZEROS


def _before_zeros(whole: FilePart, start: int, end: int) -> int:
    """Return where a stretch ends without the zeros at its end, but for a few."""
    kept_to = end
    while kept_to > start:
        at = max(start, kept_to - _LOOKED_AT_BYTES)
        found = len(whole.peek(at, kept_to - at).rstrip(b"\0"))
        kept_to = at + found
        if found:
            break
    return min(end, kept_to + _LAST_ZEROS)


def _end_of_ogg(whole: FilePart, at: int) -> int:
    """Return the end of its last page, which may be cut."""
    pages = link_at(whole, at)
    if whole.peek(pages.whole_to, 4) != b"OggS" or pages.whole_to == pages.end:
        return pages.whole_to
    return next_file(whole, pages.whole_to + 4, min(pages.end, pages.whole_to + MOST_PAGE_BYTES))


def _end_of_frames(whole: FilePart, at: int) -> int:
    """Return the end of the last frame, which may be cut; of frames that do not say how long they are the next file."""
    frames = frames_at(whole, at)
    if frames is None:
        return next_file(whole, at + 4, whole.size)
    return next_file(whole, frames.last + 4, frames.end)


def _end_of_mp4(whole: FilePart, at: int) -> int:
    has_film, last = False, at
    while len(head := whole.peek(at, 16)) >= 8:
        size, kind = int.from_bytes(head[:4], "big"), head[4:8]
        if size == 1:
            size = int.from_bytes(head[8:16], "big")
        is_other = kind not in _MP4_BOXES and (size < 8 or at + size > whole.size or not kind.isalnum())
        if has_film and (is_other or kind == b"ftyp"):
            return at
        has_film = has_film or kind == b"moov"
        last, at = at, at + size if size >= 8 else whole.size + 1  # 0 says that it goes to the end
    return at if at <= whole.size else next_head(whole, last + 8, whole.size)


def _end_of_webm(whole: FilePart, at: int) -> int:
    last, end = end_of_ebml(whole, at)
    return next_head(whole, last + 4, end)


_END_OF: Mapping[FileFormat, Callable[[FilePart, int], int]] = {
    FileFormat.WAV: _end_of_wav,
    FileFormat.FLAC: _end_of_flac,
    FileFormat.OGG: _end_of_ogg,
    FileFormat.MP3: _end_of_frames,
    FileFormat.MP4: _end_of_mp4,
    FileFormat.WEBM: _end_of_webm,
    FileFormat.AAC: _end_of_frames,
}
