"""Sound in the containers that only ffmpeg reads, written by PyAV."""

import io

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from testkit.models.tone_speech import Sound

FORMS = {
    "m4a": ("ipod", "aac"),
    "m4a-alac": ("ipod", "alac"),
    "mp4-mp3": ("mp4", "libmp3lame"),
    "webm": ("webm", "libopus"),
    "matroska-flac": ("matroska", "flac"),
    "matroska-pcm": ("matroska", "pcm_s16le"),
    "aac": ("adts", "aac"),
}
"""A container and a codec each, in ffmpeg's words."""
_TOGETHER = 1024
_LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1", 16: "hexadecagonal"}


def container_of(
    sound: Sound,
    form: str,
    rate: int = 48_000,
    *,
    channels: int = 1,
    tracks: int = 1,
    video: bool = False,
    codec: str | None = None,
) -> bytes:
    """Return a file of one of the forms, with another codec if one is named; without tracks nothing is to be heard."""
    container, usual = FORMS[form]
    codec = codec or usual
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as file:
        if video:
            _write_video(file, file.add_stream("mpeg4", rate=1))
        for stream in [file.add_stream(codec, rate=rate) for _ in range(tracks)]:
            assert isinstance(stream, AudioStream)
            stream.layout = _LAYOUTS[channels]
            if codec == "libmp3lame":
                stream.bit_rate = 128_000
            _write(file, stream, sound, rate, channels)
    return buffer.getvalue()


def _write(file: OutputContainer, stream: AudioStream, sound: Sound, rate: int, channels: int) -> None:
    for at in range(0, len(sound), _TOGETHER):
        block = np.repeat(sound[at : at + _TOGETHER].astype(np.float32), channels)
        frame = AudioFrame.from_ndarray(block[np.newaxis], "flt", _LAYOUTS[channels])
        frame.sample_rate = rate
        frame.pts = at
        file.mux(stream.encode(frame))
    file.mux(stream.encode(None))


def _write_video(file: OutputContainer, stream: object) -> None:
    assert isinstance(stream, VideoStream)
    stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
    for _ in range(3):
        file.mux(stream.encode(VideoFrame(64, 64, "yuv420p")))
    file.mux(stream.encode(None))
