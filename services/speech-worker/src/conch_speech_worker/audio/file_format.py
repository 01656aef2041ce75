"""Pure: what kind of file this is, by its first bytes; names and media types that clients give are not believed."""

from collections.abc import Collection
from enum import StrEnum

from conch_speech_worker.audio.file_bounds import FileRefused, too_short

HEAD_BYTES = 16
_MP4_BRANDS_AT = 4


class FileFormat(StrEnum):
    """The kinds of file that may hold sound."""

    WAV = "wav"
    FLAC = "flac"
    OGG = "ogg"
    MP3 = "mp3"
    MP4 = "mp4"
    WEBM = "webm"
    AAC = "aac"


READ_BY_ALL = (FileFormat.WAV, FileFormat.FLAC, FileFormat.OGG, FileFormat.MP3)
"""Those that need nothing beside libsndfile."""
_NAMES = {
    FileFormat.WAV: ("wav",),
    FileFormat.FLAC: ("flac",),
    FileFormat.OGG: ("oga", "ogg"),
    FileFormat.MP3: ("mp3", "mpga"),
    FileFormat.MP4: ("m4a", "mp4"),
    FileFormat.WEBM: ("webm",),
    FileFormat.AAC: ("aac",),
}
"""What clients call them."""


def readable_format(head: bytes, readable: Collection[FileFormat]) -> FileFormat:
    """Return the format of a file that begins so; raises FileRefused where it is none of the readable ones."""
    if not head:
        raise too_short()
    found = format_of(head)
    if found is None:
        names = sorted(name for one in readable for name in _NAMES[one])
        raise FileRefused(
            "unsupported_format",
            f"Unrecognized file format. Supported formats: {names}. The first bytes of a file count, not its name; "
            "convert it to one of them.",
        )
    if found not in readable:
        raise FileRefused(
            "unsupported_format",
            f"Files of {' and '.join(_NAMES[found])} are not read here. Convert them to flac, mp3, ogg or wav; whoever "
            "runs this can install the speech-worker with its extra `containers`, which reads them.",
        )
    return found


def format_of(head: bytes) -> FileFormat | None:
    """Return the format of a file that begins so; None for all that holds no sound."""
    if head[:4] in (b"RIFF", b"RF64", b"RIFX") and head[8:12] == b"WAVE":
        return FileFormat.WAV
    if head[:4] == b"fLaC":
        return FileFormat.FLAC
    if head[:4] == b"OggS":
        return FileFormat.OGG
    if head[_MP4_BRANDS_AT:8] == b"ftyp":
        return FileFormat.MP4
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return FileFormat.WEBM
    if head[:3] == b"ID3" or _is_mpeg_frame(head):
        return FileFormat.MP3
    return FileFormat.AAC if _is_aac_frame(head) else None


def _is_mpeg_frame(head: bytes) -> bool:
    """Tell whether this is the header of a frame of MPEG audio, layer 1 to 3; layer 0 is AAC."""
    if len(head) < 3 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return False
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    rate, sampling = head[2] >> 4, head[2] >> 2 & 3
    return version != 1 and layer != 0 and rate != 15 and sampling != 3


def _is_aac_frame(head: bytes) -> bool:
    """Tell whether this is the header of a frame of AAC (ADTS)."""
    return len(head) > 2 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0 and head[2] >> 2 & 15 < 13
