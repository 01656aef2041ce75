"""The frames of FLAC, as RFC 9639 has them: they do not say how long they are, but their headers have checksums."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from conch_speech_worker.audio.file_part import FilePart

_LEAST_HEADER_BYTES, _MOST_HEADER_BYTES = 6, 16
_HELD_BYTES = 64 * 1024
_MOST_SAMPLE_BYTES = 5
"""Of the difference of two channels, which takes a bit more than they do."""
_CHANNELS = (1, 2, 3, 4, 5, 6, 7, 8, 2, 2, 2)
_SAMPLES = (0, 192, 576, 1152, 2304, 4608, 0, 0, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768)
_SAMPLES_BEHIND, _RATE_BEHIND = {6: 1, 7: 2}, {12: 1, 13: 2, 14: 2}
"""Bytes behind the number of a frame, by what its header has in place of its samples and its rate."""


def _checksums(polynomial: int, bits: int) -> tuple[int, ...]:
    found = []
    for byte in range(256):
        rest = byte << bits - 8
        for _ in range(8):
            rest = rest << 1 ^ (polynomial if rest >> bits - 1 else 0)
        found.append(rest)
    return tuple(found)


_CHECKSUMS_OF_HEADER = _checksums(0x107, 8)
_CHECKSUMS_OF_FRAME = _checksums(0x18005, 16)


@dataclass(frozen=True, slots=True)
class FlacFrame:
    """A frame whose header is whole."""

    at: int
    number: int
    """Of the frame, or of its first sample: it grows from frame to frame."""
    most_bytes: int
    """No encoder makes it longer."""


def last_frame(part: FilePart, at: int, end: int) -> FlacFrame | None:
    """Return the last frame of a file whose frames begin there, though some may be damaged; None where none does."""
    first = part.peek(at, _MOST_HEADER_BYTES)
    last = _frame_at(at, first)
    if last is None:
        return None
    # Of the third byte the rate is alike in all of them, and of the fourth the bits of a sample.
    third = re.escape(bytes(code << 4 | first[2] & 15 for code in range(1, 16)))
    fourth = re.escape(bytes(code << 4 | first[3] & 15 for code in range(len(_CHANNELS))))
    mark = re.compile(b"%b[%b][%b][^\x80-\xbf\xff]" % (re.escape(first[:2]), third, fourth))
    while at < end:
        held = part.peek(at, min(_HELD_BYTES, end - at))
        for found in mark.finditer(held):
            frame = _frame_at(at + found.start(), held[found.start() : found.start() + _MOST_HEADER_BYTES])
            if frame is not None and frame.number > last.number:
                last = frame
        if len(held) < _HELD_BYTES:
            break
        at += len(held) - _MOST_HEADER_BYTES
    return last


def may_end_at(part: FilePart, frame: FlacFrame, end: int) -> Iterator[int]:
    """Yield where a frame may end, by its checksum: chance finds such a place once in 64 KiB."""
    rest = 0
    for size, byte in enumerate(part.peek(frame.at, min(frame.most_bytes, end - frame.at)), 1):
        before, rest = rest, (rest & 0xFF) << 8 ^ _CHECKSUMS_OF_FRAME[rest >> 8 ^ byte]
        if before and not rest:
            yield frame.at + size


def _frame_at(at: int, head: bytes) -> FlacFrame | None:
    if len(head) < _LEAST_HEADER_BYTES or head[0] != 0xFF or head[1] & 0xFE != 0xF8:
        return None
    samples_code, rate_code, channels_code = head[2] >> 4, head[2] & 15, head[3] >> 4
    more = 8 - (head[4] ^ 0xFF).bit_length()  # as in UTF-8, but of up to 36 bits
    if not samples_code or rate_code == 15 or channels_code >= len(_CHANNELS) or head[3] & 1 or more in (1, 8):
        return None
    number_end = 4 + max(1, more)
    number = head[4] & 0x7F >> more
    for byte in head[5:number_end]:
        number = number << 6 | byte & 0x3F
    samples_end = number_end + _SAMPLES_BEHIND.get(samples_code, 0)
    header_end = samples_end + _RATE_BEHIND.get(rate_code, 0)
    rest = 0
    for byte in head[: header_end + 1]:
        rest = _CHECKSUMS_OF_HEADER[rest ^ byte]
    if rest or header_end >= len(head):
        return None
    samples = _SAMPLES[samples_code] or int.from_bytes(head[number_end:samples_end], "big") + 1
    return FlacFrame(at, number, (samples * _MOST_SAMPLE_BYTES + _MOST_HEADER_BYTES) * _CHANNELS[channels_code] + 64)
