"""The first frame of an MP3, where encoders that know the end write how long it is, as Xing and LAME have it.

Of a file without that the library guesses the length by its first frame, and reads no further.
"""

from dataclasses import dataclass

_TAGS = (b"Xing", b"Info")
_HAS_FRAMES, _HAS_BYTES = 1, 2
_TAG_BEHIND = {(True, False): 32, (True, True): 17, (False, False): 17, (False, True): 9}
"""Bytes between the header of a frame and the tag: by whether it is MPEG 1, and mono."""
_RATES = (44_100, 48_000, 32_000)
_MPEG_1, _MPEG_2 = 3, 2
_LAYER_3 = 1
_BIT_RATE, _BIT_RATE_OF = 64_000, {True: 5, False: 8}
"""Of a frame with room for a tag, and its number: by whether it is MPEG 1."""
_ENDLESS = 2**31 - 1
HEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class MpegHead:
    """What the first bytes of an MP3 say."""

    tells_frames: bool
    """Whether the library knows how long it is."""
    told_bytes: int | None
    """How many bytes it has, by its tag."""
    endless: bytes
    """A frame to stand before one that tells nothing, so that all that follows is read; nothing of other layers."""


def mpeg_head(head: bytes) -> MpegHead:
    """Return what the first `HEAD_BYTES` of a file say that begins with a frame of MPEG audio."""
    if len(head) < HEAD_BYTES or head[0] != 0xFF:
        return MpegHead(tells_frames=False, told_bytes=None, endless=b"")
    version, layer, has_check = head[1] >> 3 & 3, head[1] >> 1 & 3, not head[1] & 1
    is_mpeg_1, is_mono = version == _MPEG_1, head[3] >> 6 == 3
    behind = _TAG_BEHIND[is_mpeg_1, is_mono]
    tag = head[4 + behind + (2 if has_check else 0) :]
    flags = int.from_bytes(tag[4:8], "big") if tag[:4] in _TAGS else 0
    sizes = tag[12:16] if flags & _HAS_FRAMES else tag[8:12]
    rate_number, bit_rate = head[2] >> 2 & 3, head[2] >> 4
    endless = b""
    if layer == _LAYER_3 and rate_number < len(_RATES) and bit_rate:
        rate = _RATES[rate_number] >> (0 if is_mpeg_1 else 1 if version == _MPEG_2 else 2)
        size = (144 if is_mpeg_1 else 72) * _BIT_RATE // rate
        header = bytes([0xFF, head[1] | 1, _BIT_RATE_OF[is_mpeg_1] << 4 | head[2] & 0x0C, head[3]])
        told = _TAGS[0] + _HAS_FRAMES.to_bytes(4, "big") + _ENDLESS.to_bytes(4, "big")
        endless = (header + bytes(behind) + told).ljust(size, b"\0")
    return MpegHead(
        tells_frames=bool(flags & _HAS_FRAMES),
        told_bytes=int.from_bytes(sizes, "big") if flags & _HAS_BYTES else None,
        endless=endless,
    )
