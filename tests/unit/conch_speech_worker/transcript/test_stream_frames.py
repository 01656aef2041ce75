import pytest

from conch_speech_worker.transcript.stream_frames import SegmentDeltas


@pytest.mark.parametrize(
    ("texts", "deltas"),
    [
        ([" a", " b "], ["a", " b"]),
        (["  ", " a ", "", "b "], ["", "a", "", " b"]),
        ([" ", " "], ["", ""]),
    ],
)
def test_deltas_join_to_the_stripped_text(texts, deltas):
    growing = SegmentDeltas()
    assert [growing.of(text) for text in texts] == deltas
    assert growing.text == "".join(deltas) == "".join(texts).strip()
