"""Reads what only ffmpeg reads: mp4 and m4a, webm, aac. It needs PyAV, which the extra `containers` brings.

ffmpeg is told as what to read a file, since what it guesses may be a list of other files, which it opens; the formats
that are read here open none. It may use few of its decoders: each of the others is one more that a file can break.
"""

from collections.abc import Iterator

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.error import FFmpegError
from av.packet import Packet
from numpy.typing import NDArray

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.audio.file_bounds import (
    FileRefused,
    SoundLength,
    broken,
    check_rate_and_channels,
    check_whole,
)
from conch_speech_worker.audio.file_format import FileFormat
from conch_speech_worker.audio.file_part import FilePart

_DEMUXERS = {FileFormat.MP4: "mov", FileFormat.WEBM: "matroska", FileFormat.AAC: "aac"}
_DECODERS = ("aac", "alac", "flac", "mp3", "mp3float", "opus", "vorbis", "pcm_s16be", "pcm_s16le", "pcm_s24le")
_OPTIONS = {"codec_whitelist": ",".join(_DECODERS)}
"""For what ffmpeg decodes while it finds out what a file holds."""
_MICROSECONDS = 1_000_000

Samples = NDArray[np.int16]


def samples_of(file: FilePart, found: FileFormat, length: SoundLength) -> Iterator[Samples]:
    """Yield what is to be heard of a file of this format; raises FileRefused."""
    try:
        with _opened(file, found) as container:
            yield from _decoded(container, _sound_of(container), length)
    except MemoryError:  # one of ffmpeg's errors is this as well
        raise
    except FFmpegError as error:
        raise broken((error.strerror or "ffmpeg does not say why").lower()) from error


def _opened(source: FilePart, found: FileFormat) -> InputContainer:
    return av.open(source, "r", format=_DEMUXERS[found], container_options=_OPTIONS, metadata_errors="replace")


def _sound_of(container: InputContainer) -> AudioStream:
    """Return what is to be heard; raises FileRefused where there is nothing, or nothing that is read here."""
    found = container.streams.best("audio")
    if not isinstance(found, AudioStream):
        raise FileRefused("unsupported_format", "The file holds no sound.")
    name = found.codec_context.name if found.codec_context is not None else "unknown"
    if name not in _DECODERS:
        raise FileRefused("unsupported_format", f"The sound of the file is of the kind {name}, which is not read here.")
    found.codec_context.thread_count = 1
    return found


def _decoded(container: InputContainer, sound: AudioStream, length: SoundLength) -> Iterator[Samples]:
    length.expect(_declared_s(container, sound))
    mono, decoded_s, packets_s = _Mono(), 0.0, 0.0
    for packet in container.demux(sound):
        packets_s += float((packet.duration or 0) * packet.time_base)
        for frame in _frames(packet):
            check_rate_and_channels(frame.sample_rate, frame.layout.nb_channels)
            frame_s = frame.samples / frame.sample_rate
            length.add(frame_s)
            decoded_s += frame_s
            yield from mono.of(frame)
    check_whole(decoded_s, packets_s)
    yield from mono.rest()


def _declared_s(container: InputContainer, sound: AudioStream) -> float:
    """Return how long a file says that it is; 0 where it does not. Of plain aac ffmpeg guesses it."""
    if container.format.name == "aac":
        return 0.0
    if sound.duration is not None and sound.time_base is not None:
        return float(sound.duration * sound.time_base)
    return (container.duration or 0) / _MICROSECONDS


def _frames(packet: "Packet[AudioStream]") -> list[AudioFrame]:
    """Return what a packet holds; nothing of one that is broken: how many those may be is told by their length."""
    try:
        return packet.decode()
    except MemoryError:
        raise
    except FFmpegError:
        return []


class _Mono:
    """Makes frames of one channel, at the rate of the models; their form may change on the way."""

    def __init__(self) -> None:
        self._form: tuple[int, str, str] | None = None
        self._resampler = _resampler()

    def of(self, frame: AudioFrame) -> Iterator[Samples]:
        """Yield the samples that a frame completes."""
        form = (frame.sample_rate, frame.layout.name, frame.format.name)
        if self._form not in (None, form):
            yield from self.rest()
            self._resampler = _resampler()
        self._form = form
        yield from map(_pcm, self._resampler.resample(frame))

    def rest(self) -> Iterator[Samples]:
        """Yield what has been held back."""
        yield from map(_pcm, self._resampler.resample(None))


def _resampler() -> AudioResampler:
    return AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)


def _pcm(frame: AudioFrame) -> Samples:
    samples: Samples = frame.to_ndarray()[0].astype("<i2")
    return samples
