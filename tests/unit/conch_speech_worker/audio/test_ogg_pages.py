"""Pages of Ogg: whole ones, damaged ones, chains of streams."""

import os
import tempfile

import pytest

from conch_speech_worker.audio.file_part import FilePart
from conch_speech_worker.audio.ogg_pages import OggLink, link_at
from testkit.models.tone_speech import file_of, spoken

BEGINS, GOES_ON, ENDS = 2, 0, 4
NOWHERE = 2**64 - 1


def checksum(page: bytes) -> int:
    """Return the checksum of RFC 3533, bit by bit."""
    found = 0
    for byte in page:
        found ^= byte << 24
        for _ in range(8):
            found = (found << 1 ^ 0x04C11DB7 if found & 0x80000000 else found << 1) & 0xFFFFFFFF
    return found


def page(number: int, position: int, kind: int = GOES_ON, stream: int = 7, packets: int = 2) -> bytes:
    head = b"OggS\0" + bytes([kind]) + position.to_bytes(8, "little") + stream.to_bytes(4, "little")
    head += number.to_bytes(4, "little")
    body = bytes([packets]) + bytes([10] * packets) + os.urandom(10 * packets)
    return head + checksum(head + bytes(4) + body).to_bytes(4, "little") + body


def link(data: bytes, at: int = 0) -> OggLink:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(data)
        return link_at(FilePart(file.fileno()), at)


FIRST, HEADS = page(0, 0, BEGINS), page(1, 0)
WHOLE = [FIRST, HEADS, *(page(number, 1000 * (number - 1)) for number in range(2, 6))]


def test_a_whole_stream_tells_its_length() -> None:
    data = b"".join(WHOLE)
    assert link(data) == OggLink(end=len(data), whole_to=len(data), samples=4000, cut_page=b"", damaged_behind=None)


def test_positions_that_end_nothing_and_lengths_of_a_piece_are_understood() -> None:
    begun_late = [FIRST, page(1, 0), page(2, 5_000_000), page(3, NOWHERE), page(4, 5_016_000)]
    assert link(b"".join(begun_late)).samples == 16_000
    assert link(b"no Ogg at all") == OggLink(end=13, whole_to=0, samples=0, cut_page=b"", damaged_behind=None)


@pytest.mark.parametrize("cut", [11, 20, 27, len(WHOLE[-1]) - 1])
def test_an_end_that_is_missing_is_no_damage(cut: int) -> None:
    data = b"".join(WHOLE)[:-cut]
    assert link(data) == OggLink(len(data), len(b"".join(WHOLE[:-1])), 3000, b"", None)


def test_of_a_page_that_is_cut_the_packets_are_taken_that_are_whole() -> None:
    for cut in (1, 10):
        found = link(b"".join(WHOLE)[:-cut])
        assert (found.samples, found.damaged_behind) == (3000, None)
        made = link(b"".join(WHOLE[:-1]) + found.cut_page)
        assert (made.whole_to, made.damaged_behind) == (len(b"".join(WHOLE[:-1])) + 27 + 1 + 10, None)
        assert found.cut_page[-10:] == WHOLE[-1][-20:-10]


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(page(9, 5000), id="another number"),
        pytest.param(page(5, 4000, stream=8), id="another stream"),
        pytest.param(WHOLE[-1][:-20] + bytes(20) + b"x", id="a page that is whole and damaged"),
    ],
)
def test_no_packet_is_taken_of_a_page_that_is_not_the_next_one(last: bytes) -> None:
    assert link(b"".join(WHOLE[:-1]) + last[:-1]).cut_page == b""


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param([*WHOLE[:3], *WHOLE[4:]], id="a page is missing"),
        pytest.param([*WHOLE[:3], WHOLE[3][:-1] + bytes([WHOLE[3][-1] ^ 1]), *WHOLE[4:]], id="a bit is wrong"),
        pytest.param([*WHOLE[:3], WHOLE[3][:-5], *WHOLE[4:]], id="bytes are missing"),
        pytest.param([*WHOLE[:3], b"junk", *WHOLE[3:]], id="there is something between"),
        pytest.param([*WHOLE[:3], b"OggS", *WHOLE[3:]], id="there is something like a page between"),
    ],
)
def test_damage_before_the_end_is_told_by_where_it_is(pages: list[bytes]) -> None:
    assert link(b"".join(pages)).damaged_behind == 1000


def test_a_chain_ends_where_the_next_stream_begins() -> None:
    data = b"".join(WHOLE)
    for gap in (b"", WHOLE[1][:20]):  # the first one's end may be missing
        found = link(data + gap + data)
        assert (found.end, found.whole_to, found.damaged_behind) == (len(data + gap), len(data), None)
        assert link(data + gap + data, found.end).end == len(data + gap + data)


def test_streams_beside_each_other_are_no_chain() -> None:
    other = [page(0, 0, BEGINS, stream=8), page(1, 0, stream=8)]
    data = b"".join([FIRST, other[0], HEADS, other[1], *WHOLE[2:]])
    assert link(data) == OggLink(end=len(data), whole_to=len(data), samples=4000, cut_page=b"", damaged_behind=None)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_the_pages_of_a_real_file_are_whole(subtype: str) -> None:
    data = file_of(spoken([5] * 600, 48_000), 48_000, kind="OGG", subtype=subtype)
    found = link(data)
    assert (found.end, found.whole_to, found.damaged_behind) == (len(data), len(data), None)
    assert found.samples / 48_000 == pytest.approx(120, abs=0.1)


def test_many_marks_of_pages_that_are_none_are_passed_over() -> None:
    data = b"".join(WHOLE[:3]) + b"OggS" * 300_000 + WHOLE[3]
    assert (link(data).damaged_behind, link(data).whole_to) == (1000, len(data))
