import io

import pytest

from conch_tokenizer.children import frames
from conch_tokenizer.children.frames import Frame, FrameReader, Operation, ReplyKind

FRAMES = [
    Frame(Operation.PREPARE, b"{}"),
    Frame(ReplyKind.DONE, b""),
    Frame(ReplyKind.REFUSED, bytes(range(256)) * 300),
]


@pytest.mark.parametrize("step", [1, 3, 7, 100_000])
def test_frames_survive_any_cut_of_the_stream(step: int) -> None:
    stream = b"".join(frames.pack(frame.kind, frame.payload) for frame in FRAMES)
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
    wire = Drip(frames.pack(Operation.LOAD, b"x") + b"\x01")
    assert frames.receive(wire) == Frame(Operation.LOAD, b"x")
    assert frames.receive(wire) is None


def test_a_load_names_digest_and_folder() -> None:
    assert frames.parse_load_payload(frames.load_payload("ab", "/a folder/中")) == ("ab", "/a folder/中")
