"""The first frames of MP3s, as encoders write them and as they are made here."""

import pytest

from conch_speech_worker.audio.mpeg_frames import HEAD_BYTES, mpeg_head
from testkit.models.tone_speech import file_of, spoken


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100, 48_000])
def test_a_first_frame_tells_how_long_the_file_is(rate: int, channels: int) -> None:
    file = file_of(spoken([5] * 10, rate), rate, kind="MP3", channels=channels)
    head = mpeg_head(file[:HEAD_BYTES])
    assert (head.tells_frames, head.told_bytes) == (True, len(file))
    made = mpeg_head(head.endless)
    assert (made.tells_frames, made.told_bytes) == (True, None)


@pytest.mark.parametrize("head", [b"", b"\xff\xfb\x90\x00", bytes(HEAD_BYTES), b"\xff" * HEAD_BYTES])
def test_what_is_no_first_frame_tells_nothing(head: bytes) -> None:
    assert mpeg_head(head).told_bytes is None
    assert not mpeg_head(head).tells_frames


def test_frames_of_another_layer_are_left_alone() -> None:
    assert mpeg_head(b"\xff\xfd\x94\xc4" + bytes(HEAD_BYTES)).endless == b""
