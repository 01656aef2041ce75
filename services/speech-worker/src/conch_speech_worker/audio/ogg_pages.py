"""The pages of an Ogg file, as RFC 3533 has them: where its streams end, what is missing, how long they say it is.

Libraries pass over a page that is damaged, and over all streams but the first.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conch_speech_worker.audio.file_part import FilePart

_MARK = b"OggS"
_HEAD_BYTES = 27
MOST_PAGE_BYTES = _HEAD_BYTES + 255 + 255 * 255
_HELD_BYTES = 1024 * 1024
_CHECKSUM = slice(22, 26)
_BEGINS, _ENDS = 2, 4
_LAST_POSITION = 2**63
"""From here on a position says that nothing ends on its page."""
_MOST_OF_PACKET = 8192
"""Samples that one packet may hold: a block of Vorbis, and more than 120 ms of Opus."""
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True, slots=True)
class OggLink:
    """A stream, or several beside each other; another one may follow, which makes the file a chain."""

    end: int
    """Where the next one begins, or the file ends."""
    whole_to: int
    """Behind its last whole page: from here on its end may be missing."""
    samples: int
    """How long it says that it is, at the rate of its positions."""
    cut_page: bytes
    """A page of those packets that are whole on the page at its end, where that page is cut; else nothing."""
    damaged_behind: int | None
    """How many samples come before the first page that is damaged or missing between others; None: there is none."""


def link_at(part: FilePart, at: int) -> OggLink:
    """Return what the pages from there on say."""
    end, whole_to, samples, damaged_behind = part.size, at, 0, None
    has_begun = False
    numbers: dict[int, int] = {}
    origins: dict[int, int] = {}
    positions: dict[int, int] = {}
    for page in _pages(part, at):
        if page.begins and has_begun:
            end = page.at
            break
        has_begun = has_begun or not page.begins
        if damaged_behind is None and (page.lost_before or page.number != numbers.get(page.stream, page.number)):
            damaged_behind = samples
        numbers[page.stream] = (page.number + 1) % 2**32
        whole_to = page.at + page.size
        if 0 < page.position < _LAST_POSITION:
            # A file may be a piece of a stream that has run for long.
            from_start = page.position <= page.packets * _MOST_OF_PACKET
            samples = page.position - origins.setdefault(page.stream, 0 if from_start else page.position)
            positions[page.stream] = page.position
    cut_page = _whole_packets(part.peek(whole_to, min(MOST_PAGE_BYTES, end - whole_to)), numbers, positions)
    return OggLink(end, whole_to, samples, cut_page, damaged_behind)


@dataclass(frozen=True, slots=True)
class _Page:
    at: int
    size: int
    begins: bool
    position: int
    stream: int
    number: int
    packets: int
    """Packets that end on it."""
    lost_before: bool
    """Whether there are bytes between it and the page before that are no whole page."""


def _pages(part: FilePart, at: int) -> Iterator[_Page]:
    """Yield the pages that are whole."""
    held, held_from, lost = b"", at, False
    while True:
        if held_from + len(held) < min(at + MOST_PAGE_BYTES, part.size):
            held, held_from = part.peek(at, _HELD_BYTES), at
        page = _page(held, at - held_from, at, lost_before=lost)
        if page is not None:
            yield page
            at, lost = at + page.size, False
            continue
        lost = True
        following = held.find(_MARK, at - held_from + 1)
        if following < 0 and held_from + len(held) >= part.size:
            return
        at = held_from + (following if following >= 0 else len(held) - len(_MARK) + 1)


def _page(held: bytes, start: int, at: int, *, lost_before: bool) -> _Page | None:
    """Return the page that begins here; None where none does, or it is damaged."""
    head = held[start : start + _HEAD_BYTES]
    if len(head) < _HEAD_BYTES or head[:5] != _MARK + b"\0":
        return None
    lengths = held[start + _HEAD_BYTES : start + _HEAD_BYTES + head[26]]
    size = _HEAD_BYTES + head[26] + sum(lengths)
    page = held[start : start + size]
    if len(page) < size or _checksum(page) != int.from_bytes(head[_CHECKSUM], "little"):
        return None
    return _Page(
        at=at,
        size=size,
        begins=bool(head[5] & _BEGINS),
        position=int.from_bytes(head[6:14], "little"),
        stream=int.from_bytes(head[14:18], "little"),
        number=int.from_bytes(head[18:22], "little"),
        packets=sum(length < 255 for length in lengths),
        lost_before=lost_before,
    )


def _whole_packets(cut: bytes, numbers: Mapping[int, int], positions: Mapping[int, int]) -> bytes:
    """Return a page of the packets that are whole on one that is cut; nothing where it is not its stream's next."""
    head, lengths = cut[:_HEAD_BYTES], b""
    if len(head) == _HEAD_BYTES and head[:5] == _MARK + b"\0":
        lengths = cut[_HEAD_BYTES : _HEAD_BYTES + head[26]]
    body = cut[_HEAD_BYTES + len(lengths) :]
    stream, number = (int.from_bytes(head[at : at + 4], "little") for at in (14, 18))
    if not lengths or len(lengths) < head[26] or len(body) >= sum(lengths) or numbers.get(stream) != number:
        return b""
    whole = [at + 1 for at, length in enumerate(lengths) if length < 255 and sum(lengths[: at + 1]) <= len(body)]
    if not whole:
        return b""
    lengths = lengths[: whole[-1]]
    # The packets tell how much they hold; to the library a position that is too far is a bound that is not reached.
    position = positions.get(stream, 0) + len(whole) * _MOST_OF_PACKET
    head = head[:5] + bytes([head[5] & ~_ENDS]) + position.to_bytes(8, "little") + head[14:22]
    page = head + bytes(4) + bytes([len(lengths)]) + lengths + body[: sum(lengths)]
    return page[: _CHECKSUM.start] + _checksum(page).to_bytes(4, "little") + page[_CHECKSUM.stop :]


def _checksum(page: bytes) -> int:
    """Return the checksum of a page. It is that of zlib with the bits of all numbers in the other order."""
    plain = page[: _CHECKSUM.start] + bytes(4) + page[_CHECKSUM.stop :]
    found = zlib.crc32(plain.translate(_REVERSED), 2**32 - 1) ^ 2**32 - 1
    return int(f"{found:032b}"[::-1], 2)
