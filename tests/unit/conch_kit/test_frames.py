import io

import pytest

from conch_kit import frames
from conch_kit.frames import Frame, FrameReader, FrameTooLarge

FRAMES = [Frame(1, b"{}"), Frame(65, b"", 2**32 - 1), Frame(255, bytes(range(256)) * 300, 7)]


@pytest.mark.parametrize("step", [1, 3, 7, 100_000])
def test_frames_survive_any_cut_of_the_stream(step: int) -> None:
    stream = b"".join(frames.pack(frame.kind, frame.payload, frame.number) for frame in FRAMES)
    reader = FrameReader()
    found = [frame for start in range(0, len(stream), step) for frame in reader.feed(stream[start : start + step])]
    assert found == FRAMES


class Drip:
    """Gives one byte at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def recv_into(self, buffer: memoryview) -> int:
        return self._data.readinto(buffer[:1])

    def sendall(self, data: bytes) -> None:
        raise AssertionError(data)


def test_a_child_reads_frames_until_the_other_side_is_gone() -> None:
    wire = Drip(frames.pack(4, b"x") + b"\x01")
    assert frames.receive(wire) == Frame(4, b"x")
    assert frames.receive(wire) is None


def test_a_frame_over_the_limit_is_known_by_its_head() -> None:
    reader = FrameReader(max_payload_bytes=10)
    assert reader.feed(frames.pack(1, b"x" * 10)) == [Frame(1, b"x" * 10)]
    with pytest.raises(FrameTooLarge):
        reader.feed(frames.pack(1, b"x" * 11)[: frames.HEADER_BYTES])
