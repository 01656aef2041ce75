"""Segments as subtitles: SubRip and WebVTT."""

from collections.abc import Iterable

from conch_speech_worker.transcript.segments import Segment


def srt(segments: Iterable[Segment]) -> str:
    """Return the segments as SubRip has them."""
    blocks = (
        f"{number}\n{_time(one.start, ',')} --> {_time(one.end, ',')}\n{_line(one)}\n\n"
        for number, one in enumerate(segments, 1)
    )
    return "".join(blocks)


def vtt(segments: Iterable[Segment]) -> str:
    """Return the segments as WebVTT has them."""
    blocks = (f"{_time(one.start, '.')} --> {_time(one.end, '.')}\n{_line(one)}\n\n" for one in segments)
    return "WEBVTT\n\n" + "".join(blocks)


def _line(segment: Segment) -> str:
    """Return the text of a cue, which an arrow or an empty line would end."""
    lines = (line.strip() for line in segment.text.replace("-->", "->").splitlines())
    return "\n".join(line for line in lines if line)


def _time(seconds: float, mark: str) -> str:
    millis = round(seconds * 1000)
    return f"{millis // 3_600_000:02}:{millis // 60_000 % 60:02}:{millis // 1000 % 60:02}{mark}{millis % 1000:03}"
