"""Decodes one file, in a child process that may be killed: descriptor in, frames of samples out.

Everything here blocks and none of it is trusted: libraries that read compressed sound have faults, and files grow by
hundreds when they are decoded. So a child has bounds on memory, on processor time and on what it may write, and its
parent believes nothing but samples and refusals.
"""

import os
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_contracts.messages.message import to_json
from conch_kit import frames
from conch_speech_worker.audio.child_messages import ChildFrame, DecodingLimits, FileRefusal
from conch_speech_worker.audio.file_format import HEAD_BYTES, READ_BY_ALL, FileFormat, format_of
from conch_speech_worker.audio.ogg_length import granule_of_last_page

LEAST_RATE, MOST_RATE = 4_000, 192_000
MOST_CHANNELS = 8
LEAST_S = 0.1
_BLOCK = 32_768
"""Samples of each channel that are decoded at once."""
_FULL_SCALE = 32_768
_MISSING_S, _MISSING_SHARE = 0.5, 0.1
"""So much less than an Ogg file says may come out of it before it counts as broken."""


class ForwardFile(soundfile.SoundFile):  # type: ignore[misc]  # the library has no types
    """A file that is read from its beginning to its end.

    The library seeks behind each read where it can, and in an MP3 that leads elsewhere.
    """

    def seekable(self) -> bool:
        """Return that it is not."""
        return False


class FileRefused(Exception):
    """The file is not taken."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.refusal = FileRefusal(code=code, message=message)


def decode_in_child(file: int, wire: socket.socket, limits: DecodingLimits) -> None:
    """Decode a file within limits and end; what is wrong with it is written as a refusal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit(limits)
    with suppress(BrokenPipeError, ConnectionResetError):  # nobody waits for it any more
        try:
            for samples in _samples(file, limits.max_audio_s):
                wire.sendall(frames.pack(ChildFrame.SAMPLES, samples.tobytes()))
            wire.sendall(frames.pack(ChildFrame.END))
        except FileRefused as refused:
            wire.sendall(frames.pack(ChildFrame.REFUSAL, to_json(refused.refusal)))
        except MemoryError:
            wire.sendall(frames.pack(ChildFrame.REFUSAL, to_json(_broken("it takes too much memory").refusal)))


def _limit(limits: DecodingLimits) -> None:
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    bounds = {
        resource.RLIMIT_AS: used + limits.memory_bytes,
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in bounds.items():
        resource.setrlimit(kind, (most, most))


def _samples(file: int, max_audio_s: float) -> Iterator[NDArray[np.int16]]:
    """Yield what is to be heard; raises FileRefused."""
    _check_format(os.pread(file, HEAD_BYTES, 0))
    os.lseek(file, 0, os.SEEK_SET)
    try:
        with ForwardFile(file, closefd=False) as sound:
            _check_sound(sound, max_audio_s)
            yield from _resampled(sound, file, max_audio_s)
    except soundfile.LibsndfileError as error:
        raise _broken(str(error.error_string).rstrip(".")) from error


def _check_format(head: bytes) -> None:
    if not head:
        raise FileRefused("audio_too_short", _TOO_SHORT)
    found = format_of(head)
    if found is None:
        raise FileRefused(
            "unsupported_format",
            "Unrecognized file format. Supported formats: ['flac', 'mp3', 'mpeg', 'mpga', 'oga', 'ogg', 'wav'].",
        )
    if found not in READ_BY_ALL:
        holder = "mp4 and m4a" if found is FileFormat.MP4 else "webm"
        raise FileRefused(
            "unsupported_format", f"Files of {holder} are not read here. Convert it to flac, mp3, ogg or wav."
        )


_TOO_SHORT = f"Audio file is too short. Minimum audio length is {LEAST_S} seconds."


def _check_sound(sound: ForwardFile, max_audio_s: float) -> None:
    rate, channels = sound.samplerate, sound.channels
    if not LEAST_RATE <= rate <= MOST_RATE:
        raise FileRefused("invalid_audio", f"Expected from {LEAST_RATE} to {MOST_RATE} samples a second, found {rate}.")
    if not 1 <= channels <= MOST_CHANNELS:
        raise FileRefused("invalid_audio", f"Expected at most {MOST_CHANNELS} channels, found {channels}.")
    if sound.frames > max_audio_s * rate and sound.format != "OGG":  # that of an Ogg file is told by what follows it
        raise _too_long(max_audio_s)


def _resampled(sound: ForwardFile, file: int, max_audio_s: float) -> Iterator[NDArray[np.int16]]:
    rate, decoded = sound.samplerate, 0
    resampler = None if rate == SAMPLE_RATE else soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")
    while len(block := _read(sound, file, decoded)):
        decoded += len(block)
        if decoded > max_audio_s * rate:
            raise _too_long(max_audio_s)
        mono = block[:, 0] if block.shape[1] == 1 else block.mean(axis=1)
        if not np.isfinite(mono).all():
            raise _broken("its samples are not finite")
        yield _pcm(mono if resampler is None else resampler.resample_chunk(mono))
    if decoded < LEAST_S * rate:
        raise FileRefused("audio_too_short", _TOO_SHORT)
    if sound.format == "OGG":
        _check_whole(decoded, granule_of_last_page(file), sound)
    if resampler is not None:
        yield _pcm(resampler.resample_chunk(np.zeros(0, np.float32), last=True))


def _read(sound: ForwardFile, file: int, decoded: int) -> NDArray[np.float32]:
    """Return the next samples; nothing where the rest of the file is missing. Raises LibsndfileError elsewhere."""
    try:
        block: NDArray[np.float32] = sound.read(_BLOCK, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError:
        if not decoded or os.lseek(file, 0, os.SEEK_CUR) < os.fstat(file).st_size:
            raise
        return np.zeros((0, sound.channels), np.float32)
    return block


def _check_whole(decoded: int, last_granule: int | None, sound: ForwardFile) -> None:
    """Raise for an Ogg file of which less came out than it says: libsndfile passes over what it cannot read."""
    rate = 48_000 if sound.subtype == "OPUS" else sound.samplerate
    if last_granule is None:
        return
    said_s, found_s = last_granule / rate, decoded / sound.samplerate
    if found_s < said_s - _MISSING_S and found_s < said_s * (1 - _MISSING_SHARE):
        raise _broken(f"only {found_s:.1f} of its {said_s:.1f} seconds can be read; convert it to flac, mp3 or wav")


def _pcm(mono: NDArray[np.float32]) -> NDArray[np.int16]:
    scaled = np.rint(mono * np.float32(_FULL_SCALE))
    samples: NDArray[np.int16] = np.clip(scaled, -_FULL_SCALE, _FULL_SCALE - 1).astype("<i2")
    return samples


def _broken(why: str) -> FileRefused:
    return FileRefused("invalid_audio", f"The audio file cannot be decoded: {why}.")


def _too_long(max_audio_s: float) -> FileRefused:
    return FileRefused("audio_too_long", f"Expected at most {max_audio_s:g} seconds of audio.")
