from conch_speech_worker.transcript.segments import Segment
from conch_speech_worker.transcript.subtitles import srt, vtt


def segment(start: float, end: float, text: str) -> Segment:
    return Segment(start, end, text, (1,), (-0.5,), 0.0, -0.5, 0.0, 1.0, None)


SAID = (segment(0.0, 1.5, " one\n\n two"), segment(3661.0, 3662.2504, " three --> four"))


def test_cues_hold_nothing_that_ends_them():
    assert srt(SAID) == (
        "1\n00:00:00,000 --> 00:00:01,500\none\ntwo\n\n2\n01:01:01,000 --> 01:01:02,250\nthree -> four\n\n"
    )
    assert vtt(SAID) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\none\ntwo\n\n01:01:01.000 --> 01:01:02.250\nthree -> four\n\n"
    )
