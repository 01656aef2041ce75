"""Files of sound of every kind that is read, and each way in which files are damaged: the same for the same seed."""

import random
from collections.abc import Callable, Mapping

from conch_contracts.dialects.speech import SAMPLE_RATE
from testkit.models.container_files import FORMS, container_of
from testkit.models.tone_speech import Sound, file_of

KINDS = {
    "wav": ("WAV", "PCM_16"),
    "wav-float": ("WAV", "FLOAT"),
    "wav-u8": ("WAV", "PCM_U8"),
    "flac": ("FLAC", "PCM_16"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "vorbis": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
}
"""What libsndfile calls each kind that it reads."""
HEAD_BYTES = 600
"""Where most of what a file says of itself stands."""
_MARKS = (
    *(b"RIFF", b"fmt ", b"data", b"fact", b"fLaC", b"OggS", b"OpusHead", b"vorbis", b"ftyp", b"moov", b"trak", b"mdhd"),
    *(b"stsd", b"stts", b"stsc", b"stsz", b"stco", b"esds", b"mdat", b"\x1a\x45\xdf\xa3", b"\x1f\x43\xb6\x75"),
)
"""What stands beside lengths and numbers of pieces."""
_LENGTHS = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFF0,
    0xFFFFFFFF,
    2**63 - 1,
    2**64 - 1,
)


def sound_files(sound: Sound) -> dict[str, bytes]:
    """Return sound at 16 kHz as a file of each kind, by its name."""
    plain = {name: file_of(sound, kind=kind, subtype=subtype) for name, (kind, subtype) in KINDS.items()}
    return plain | {form: container_of(sound, form, SAMPLE_RATE) for form in FORMS}


def damaged(data: bytes, way: str, chance: random.Random) -> bytes:
    """Return a file that is damaged in one of the `WAYS`."""
    return bytes(WAYS[way](bytearray(data), chance))


def _head(data: bytearray, chance: random.Random) -> bytearray:
    return _overwritten(data, chance, 0, min(HEAD_BYTES, len(data)))


def _middle(data: bytearray, chance: random.Random) -> bytearray:
    return _overwritten(data, chance, min(HEAD_BYTES, len(data) // 2), len(data))


def _overwritten(data: bytearray, chance: random.Random, first: int, after: int) -> bytearray:
    for _ in range(chance.choice([1, 2, 5, 50])):
        data[chance.randrange(first, after)] = chance.choice([0, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    return data


def _cut(data: bytearray, chance: random.Random) -> bytearray:
    return data[: chance.choice([chance.randrange(1, len(data)), chance.randrange(1, min(HEAD_BYTES, len(data)))])]


def _lengths(data: bytearray, chance: random.Random) -> bytearray:
    """Put another number where one may stand: in the head, or close to a mark."""
    marks = [at for mark in _MARKS if (at := data.find(mark)) >= 0]
    for _ in range(chance.choice([1, 1, 2, 4])):
        near = chance.choice([*marks, chance.randrange(min(HEAD_BYTES, len(data)))]) + chance.randrange(-8, 32)
        size = chance.choice([1, 2, 3, 4, 4, 8])
        at = min(max(near, 0), len(data) - size)
        value = chance.choice([*_LENGTHS, len(data), chance.randrange(2**32)]) % 2 ** (8 * size)
        data[at : at + size] = value.to_bytes(size, chance.choice(["big", "little"]))
    return data


def _moved(data: bytearray, chance: random.Random) -> bytearray:
    """Leave a piece out, or put it, noise or nothing at all elsewhere."""
    first = chance.randrange(len(data))
    piece = data[first : first + chance.randrange(1, 4096)]
    if chance.random() < 0.3:
        del data[first : first + len(piece)]
        return data
    at = chance.randrange(len(data))
    data[at:at] = chance.choice([piece, chance.randbytes(len(piece)), bytes(len(piece))])
    return data


WAYS: Mapping[str, Callable[[bytearray, random.Random], bytearray]] = {
    "head": _head,
    "middle": _middle,
    "cut": _cut,
    "lengths": _lengths,
    "moved": _moved,
}
