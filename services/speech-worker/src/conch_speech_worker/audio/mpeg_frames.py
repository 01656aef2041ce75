"""The frames of MPEG audio and of AAC, by their headers; the first one of an MP3 may tell how many there are.

Encoders that know the end write that as Xing and LAME have it, and it may be wrong. Of a file without it the library
guesses the length by its first frame, and reads no further.
"""

from dataclasses import dataclass
from functools import cache

from conch_speech_worker.audio.file_part import FilePart

_TAGS = (b"Xing", b"Info")
_HAS_FRAMES = 1
_TAG_BEHIND = {(True, False): 32, (True, True): 17, (False, False): 17, (False, True): 9}
"""Bytes between the header of a frame and the tag: by whether it is MPEG 1, and mono."""
_RATES = (44_100, 48_000, 32_000)
_MPEG_1, _MPEG_2 = 3, 2
_LAYER_1, _LAYER_2, _LAYER_3 = 3, 2, 1
_BIT_RATE, _BIT_RATE_OF = 64_000, {True: 5, False: 8}
"""Of a frame with room for a tag, and its number: by whether it is MPEG 1."""
_KBIT = {
    (True, _LAYER_1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, _LAYER_2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, _LAYER_3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, _LAYER_1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, _LAYER_2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, _LAYER_3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""By whether it is MPEG 1, and its layer; from number 1 on, since 0 says nothing."""
_ENDLESS = 2**31 - 1
_MOST_TOLD = 2**24
"""Frames of more than three days."""
FRAME_HEADER_BYTES = 7
_HELD_BYTES = 1024 * 1024
_SURE_FRAMES, _SURE_AT_END = 4, 2
"""So many frames one behind the other are no accident; fewer with which a file ends."""
HEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class AudioFrameHeader:
    """What the header of a frame says."""

    form: tuple[int, ...]
    """What all frames of a file have in common."""
    size: int
    """Bytes with the header."""
    samples: int
    rate: int


@dataclass(frozen=True, slots=True)
class FrameRun:
    """Frames of one form, one behind the other."""

    last: int
    """Where the last one begins."""
    end: int
    """Where the last one ends, or the file."""
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class MpegHead:
    """What the first bytes of an MP3 say."""

    told_frames: int | None
    """How many frames follow this one, by its tag."""
    endless: bytes
    """A frame to stand before one that tells nothing, so that all that follows is read; nothing of other layers."""

    def covers(self, frames: int) -> bool:
        """Tell whether so many frames behind this one are read by what it tells, if that is believable."""
        return self.told_frames is not None and frames <= self.told_frames <= _MOST_TOLD


def frame_header(head: bytes) -> AudioFrameHeader | None:
    """Return what the first bytes of a frame say of it; None where none begins, or it does not say how long it is."""
    if len(head) < FRAME_HEADER_BYTES or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    if head[1] & 0xF6 == 0xF0:
        size = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
        if size <= FRAME_HEADER_BYTES or head[2] >> 2 & 15 > 12:
            return None
        return AudioFrameHeader((head[1], head[2], head[3] & 0xF0), size, 0, 1)
    return _mpeg_header(head[1], head[2], is_mono=head[3] >> 6 == 3)


@cache  # a file has few, and noise many
def _mpeg_header(second: int, third: int, *, is_mono: bool) -> AudioFrameHeader | None:
    version, layer = second >> 3 & 3, second >> 1 & 3
    bit_rate, rate_number = third >> 4, third >> 2 & 3
    if version == 1 or not layer or bit_rate in (0, 15) or rate_number == len(_RATES):
        return None
    is_mpeg_1, padding = version == _MPEG_1, third >> 1 & 1
    rate = _RATES[rate_number] >> (0 if is_mpeg_1 else 1 if version == _MPEG_2 else 2)
    bits_a_second = _KBIT[is_mpeg_1, layer][bit_rate - 1] * 1000
    form = (version, layer, rate_number, is_mono)
    if layer == _LAYER_1:
        return AudioFrameHeader(form, (12 * bits_a_second // rate + padding) * 4, 384, rate)
    samples = 576 if layer == _LAYER_3 and not is_mpeg_1 else 1152
    return AudioFrameHeader(form, samples // 8 * bits_a_second // rate + padding, samples, rate)


def is_sure_frame(part: FilePart, at: int) -> bool:
    """Tell whether so many frames of one form begin here that it is no accident."""
    form, count = None, 0
    while count < _SURE_FRAMES:
        found = frame_header(part.peek(at, FRAME_HEADER_BYTES))
        if found is None or form not in (None, found.form):
            return count >= _SURE_AT_END and at == part.size
        form, at, count = found.form, at + found.size, count + 1
    return True


def frames_at(part: FilePart, at: int) -> FrameRun | None:
    """Return the frames that begin here; None where none does, or it does not say how long it is.

    They end before what is no frame of their form, and before one that tells how many frames follow it: the library
    reads no further.
    """
    first = frame_header(part.peek(at, FRAME_HEADER_BYTES))
    if first is None:
        return None
    last, end, count = at, at + first.size, 1
    held, held_from = b"", at
    while end < part.size:
        if end + HEAD_BYTES > held_from + len(held):
            held, held_from = part.peek(end, _HELD_BYTES), end
        head = held[end - held_from : end - held_from + HEAD_BYTES]
        found = frame_header(head)
        if found is None or found.form != first.form:
            break
        if any(tag in head for tag in _TAGS) and mpeg_head(head).told_frames is not None:
            break
        last, end, count = end, end + found.size, count + 1
    return FrameRun(last, min(end, part.size), count, count * first.samples / first.rate)


def mpeg_head(head: bytes) -> MpegHead:
    """Return what the first `HEAD_BYTES` of a file say that begins with a frame of MPEG audio."""
    if len(head) < HEAD_BYTES or head[0] != 0xFF:
        return MpegHead(told_frames=None, endless=b"")
    version, layer, has_check = head[1] >> 3 & 3, head[1] >> 1 & 3, not head[1] & 1
    is_mpeg_1, is_mono = version == _MPEG_1, head[3] >> 6 == 3
    behind = _TAG_BEHIND[is_mpeg_1, is_mono]
    tag = head[4 + behind + (2 if has_check else 0) :]
    flags = int.from_bytes(tag[4:8], "big") if tag[:4] in _TAGS else 0
    rate_number, bit_rate = head[2] >> 2 & 3, head[2] >> 4
    endless = b""
    if layer == _LAYER_3 and rate_number < len(_RATES) and bit_rate:
        rate = _RATES[rate_number] >> (0 if is_mpeg_1 else 1 if version == _MPEG_2 else 2)
        size = (144 if is_mpeg_1 else 72) * _BIT_RATE // rate
        header = bytes([0xFF, head[1] | 1, _BIT_RATE_OF[is_mpeg_1] << 4 | head[2] & 0x0C, head[3]])
        told = _TAGS[0] + _HAS_FRAMES.to_bytes(4, "big") + _ENDLESS.to_bytes(4, "big")
        endless = (header + bytes(behind) + told).ljust(size, b"\0")
    return MpegHead(
        told_frames=int.from_bytes(tag[8:12], "big") if flags & _HAS_FRAMES else None,
        endless=endless,
    )
