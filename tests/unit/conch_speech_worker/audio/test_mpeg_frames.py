"""Frames of MP3s and of AAC, as encoders write them and as they are made here."""

import tempfile

import pytest

from conch_speech_worker.audio.file_part import FilePart
from conch_speech_worker.audio.mpeg_frames import HEAD_BYTES, FrameRun, frames_at, mpeg_head
from testkit.models.container_files import container_of
from testkit.models.tone_speech import file_of, spoken


def frames(data: bytes) -> FrameRun | None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(data)
        return frames_at(FilePart(file.fileno()), 0)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100, 48_000])
def test_frames_are_as_many_as_the_first_one_tells(rate: int, channels: int) -> None:
    file = file_of(spoken([5] * 10, rate), rate, kind="MP3", channels=channels)
    head, found = mpeg_head(file[:HEAD_BYTES]), frames(file)
    assert found is not None
    assert (head.told_frames, found.end) == (found.count - 1, len(file))
    assert found.seconds == pytest.approx(2, abs=0.3)
    made = mpeg_head(head.endless)
    assert made.told_frames
    assert not made.covers(10)


def test_a_number_of_frames_is_believed_that_can_be() -> None:
    head = mpeg_head(file_of(spoken([5] * 10), kind="MP3")[:HEAD_BYTES])
    assert head.told_frames
    assert [head.covers(head.told_frames + more) for more in (-1, 0, 1)] == [True, True, False]


def test_frames_of_aac_are_walked_to_their_end() -> None:
    file = container_of(spoken([5] * 10), "aac")
    found = frames(file)
    assert found is not None
    assert found.end == len(file)
    cut = frames(file[:-5])
    assert cut is not None
    assert (cut.last, cut.end) == (found.last, len(file) - 5)


@pytest.mark.parametrize("head", [b"", b"\xff\xfb\x90\x00", bytes(HEAD_BYTES), b"\xff" * HEAD_BYTES])
def test_what_is_no_first_frame_tells_nothing(head: bytes) -> None:
    assert mpeg_head(head).told_frames is None
    assert frames(head) is None


def test_frames_of_another_layer_are_left_alone() -> None:
    assert mpeg_head(b"\xff\xfd\x94\xc4" + bytes(HEAD_BYTES)).endless == b""
