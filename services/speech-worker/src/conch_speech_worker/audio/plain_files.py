"""Reads what libsndfile reads: wav, flac, mp3 and ogg."""

import os
from collections.abc import Iterator

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.audio.file_bounds import (
    LEAST_S,
    broken,
    check_rate_and_channels,
    check_whole,
    too_long,
    too_short,
)
from conch_speech_worker.audio.ogg_length import granule_of_last_page

_BLOCK = 32_768
"""Samples of each channel that are decoded at once."""
_FULL_SCALE = 32_768


class ForwardFile(soundfile.SoundFile):  # type: ignore[misc]  # the library has no types
    """A file that is read from its beginning to its end.

    The library seeks behind each read where it can, and in an MP3 that leads elsewhere.
    """

    def seekable(self) -> bool:
        """Return that it is not."""
        return False


def samples_of(file: int, max_audio_s: float) -> Iterator[NDArray[np.int16]]:
    """Yield what is to be heard; raises FileRefused."""
    try:
        with ForwardFile(file, closefd=False) as sound:
            check_rate_and_channels(sound.samplerate, sound.channels)
            # What an Ogg file says of its length is told by what follows it.
            if sound.frames > max_audio_s * sound.samplerate and sound.format != "OGG":
                raise too_long(max_audio_s)
            yield from _resampled(sound, file, max_audio_s)
    except soundfile.LibsndfileError as error:
        raise broken(str(error.error_string).rstrip(".")) from error


def _resampled(sound: ForwardFile, file: int, max_audio_s: float) -> Iterator[NDArray[np.int16]]:
    rate, decoded = sound.samplerate, 0
    resampler = None if rate == SAMPLE_RATE else soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")
    while len(block := _read(sound, file, decoded)):
        decoded += len(block)
        if decoded > max_audio_s * rate:
            raise too_long(max_audio_s)
        mono = block[:, 0] if block.shape[1] == 1 else block.mean(axis=1)
        if not np.isfinite(mono).all():
            raise broken("its samples are not finite")
        yield _pcm(mono if resampler is None else resampler.resample_chunk(mono))
    if decoded < LEAST_S * rate:
        raise too_short()
    if sound.format == "OGG":
        _check_whole_ogg(decoded, granule_of_last_page(file), sound)
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


def _check_whole_ogg(decoded: int, last_granule: int | None, sound: ForwardFile) -> None:
    rate = 48_000 if sound.subtype == "OPUS" else sound.samplerate
    if last_granule is not None:
        check_whole(decoded / sound.samplerate, last_granule / rate)


def _pcm(mono: NDArray[np.float32]) -> NDArray[np.int16]:
    scaled = np.rint(mono * np.float32(_FULL_SCALE))
    samples: NDArray[np.int16] = np.clip(scaled, -_FULL_SCALE, _FULL_SCALE - 1).astype("<i2")
    return samples
