"""Reads what libsndfile reads: wav, flac, mp3 and ogg."""

from collections.abc import Generator, Iterator

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.audio.file_bounds import SoundLength, broken, check_rate_and_channels, check_whole
from conch_speech_worker.audio.file_part import FilePart
from conch_speech_worker.audio.mpeg_frames import HEAD_BYTES, frames_at, mpeg_head
from conch_speech_worker.audio.ogg_pages import OggLink, link_at
from conch_speech_worker.audio.wav_head import with_known_samples

_BLOCK = 32_768
"""Samples of each channel that are decoded at once."""
_FULL_SCALE = 32_768
_UNKNOWN_FRAMES = 2**63 - 1
"""What the library says of a file that does not say how long it is, such as a FLAC that was written to a pipe."""

_NO_SOUND = ("File does not exist or is not a regular file", "Format not recognised", "Unspecified internal error")
"""How the library calls it that a file of a known kind has nothing of it that can be decoded."""

Floats = NDArray[np.float32]


class ForwardFile(soundfile.SoundFile):  # type: ignore[misc]  # the library has no types
    """A file that is read from its beginning to its end.

    The library seeks behind each read where it can, and in an MP3 that leads elsewhere.
    """

    def seekable(self) -> bool:
        """Return that it is not."""
        return False


def samples_of(file: FilePart, length: SoundLength) -> Iterator[NDArray[np.int16]]:
    """Yield what is to be heard; raises FileRefused."""
    if file.peek(0, 4) == b"OggS":
        pages = link_at(file, 0)
        return _heard(file.part(0, pages.whole_to, behind=pages.cut_page), length, pages, tells_length=False)
    if file.peek(0, 1) != b"\xff":
        return _heard(with_known_samples(file) if file.peek(8, 4) == b"WAVE" else file, length, tells_length=True)
    head, frames = mpeg_head(file.peek(0, HEAD_BYTES)), frames_at(file, 0)
    frames_s = frames.seconds if frames else 0.0
    if head.covers(frames.count - 1 if frames else 0):
        return _heard(file, length, least_s=frames_s, tells_length=True)
    return _heard(file.part(0, file.size, before=head.endless), length, least_s=frames_s, tells_length=False)


def _heard(
    file: FilePart,
    length: SoundLength,
    pages: OggLink | None = None,
    *,
    least_s: float = 0.0,
    tells_length: bool,
) -> Iterator[NDArray[np.int16]]:
    try:
        with ForwardFile(file) as sound:
            check_rate_and_channels(sound.samplerate, sound.channels)
            if pages is not None:
                _check_undamaged(pages, sound)
            if tells_length and sound.frames < _UNKNOWN_FRAMES:
                length.expect(sound.frames / sound.samplerate)
            decoded = yield from _resampled(sound, file, length)
            if pages is not None:
                least_s = pages.samples / _rate_of_positions(sound)
            check_whole(decoded / sound.samplerate, least_s)
    except soundfile.LibsndfileError as error:
        raise broken(_reason(error)) from error


def _reason(error: soundfile.LibsndfileError) -> str:
    """Return the library's words, where they say something of the file."""
    words = str(error.error_string).rstrip(".").removeprefix("Error : ")
    return "no sound is found in it" if words.startswith(_NO_SOUND) else words


def _check_undamaged(pages: OggLink, sound: ForwardFile) -> None:
    """Raise FileRefused where something is missing that the library would pass over."""
    if pages.damaged_behind is not None:
        raise broken(f"it is damaged after about {pages.damaged_behind / _rate_of_positions(sound):.0f} seconds")


def _rate_of_positions(sound: ForwardFile) -> int:
    rate: int = 48_000 if sound.subtype == "OPUS" else sound.samplerate
    return rate


def _resampled(sound: ForwardFile, file: FilePart, length: SoundLength) -> Generator[NDArray[np.int16], None, int]:
    """Yield all samples, and return how many of each channel have been decoded."""
    rate, decoded = sound.samplerate, 0
    resampler = None if rate == SAMPLE_RATE else soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")
    while len(block := _read(sound, file, decoded)):
        decoded += len(block)
        length.add(len(block) / rate)
        mono = block[:, 0] if block.shape[1] == 1 else block.mean(axis=1)
        if not np.isfinite(mono).all():
            raise broken("its samples are not finite")
        yield _pcm(mono if resampler is None else resampler.resample_chunk(mono))
    if resampler is not None:
        yield _pcm(resampler.resample_chunk(np.zeros(0, np.float32), last=True))
    return decoded


def _read(sound: ForwardFile, file: FilePart, decoded: int) -> Floats:
    """Return the next samples, all that come before the end where it is missing; raises LibsndfileError elsewhere."""
    block = np.empty((_BLOCK, sound.channels), np.float32)
    try:
        count = len(sound.read(out=block))
    except soundfile.LibsndfileError:
        count = sound.tell() - decoded
        if not decoded + count or file.tell() < file.size:
            raise
    return block[:count]


def _pcm(mono: Floats) -> NDArray[np.int16]:
    scaled = np.rint(mono * np.float32(_FULL_SCALE))
    samples: NDArray[np.int16] = np.clip(scaled, -_FULL_SCALE, _FULL_SCALE - 1).astype("<i2")
    return samples
