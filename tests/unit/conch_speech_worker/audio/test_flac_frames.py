"""Frames of FLAC as its real encoder writes them: the last one is found, and where it ends."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.audio.file_part import FilePart
from conch_speech_worker.audio.flac_frames import last_frame, may_end_at
from testkit.models.container_files import container_of
from testkit.models.decoded_file import decoded
from testkit.models.tone_speech import Sound, file_of, silence, spoken

NOISE = np.random.default_rng(3).uniform(-0.9, 0.9, SAMPLE_RATE).astype(np.float32)
SOUNDS = {
    "speech": (spoken([3] * 10), SAMPLE_RATE, 1, "PCM_16"),
    "an odd rate": (spoken([3] * 10), 11_127, 1, "PCM_16"),
    "noise": (NOISE, 48_000, 2, "PCM_24"),
    "six channels": (NOISE, 96_000, 6, "PCM_S8"),
    "silence whose frames are shorter than a header may be": (silence(300), SAMPLE_RATE, 1, "PCM_16"),
}
BLOCK = 4096
"""Samples of a frame, by the encoder."""


def flac_of(sound: Sound, rate: int = SAMPLE_RATE, channels: int = 1, subtype: str = "PCM_16") -> tuple[bytes, int]:
    """Return a FLAC, and where its first frame begins."""
    flac = file_of(sound, rate, kind="FLAC", subtype=subtype, channels=channels)
    at, is_last = 4, False
    while not is_last:
        is_last = bool(flac[at] & 0x80)
        at += 4 + int.from_bytes(flac[at + 1 : at + 4], "big")
    return flac, at


@contextmanager
def part_of(data: bytes) -> Iterator[FilePart]:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(data)
        yield FilePart(file.fileno())


@pytest.mark.parametrize("sound", SOUNDS)
def test_the_last_frame_is_found_and_where_it_ends(sound: str) -> None:
    flac, first = flac_of(*SOUNDS[sound])
    with part_of(flac + NOISE.tobytes()) as part:
        last = last_frame(part, first, part.size)
        assert last is not None
        assert last.number == (len(SOUNDS[sound][0]) - 1) // BLOCK
        assert len(flac) in may_end_at(part, last, part.size)


@pytest.mark.parametrize("samples", [2000, BLOCK + 2000])
def test_a_checksum_that_ends_in_a_zero_is_part_of_its_frame(samples: int) -> None:
    chance = np.random.default_rng(1)
    flacs = (flac_of(chance.uniform(-0.1, 0.1, samples).astype(np.float32))[0] for _ in range(5000))
    flac = next(flac for flac in flacs if flac[-1] == 0)
    assert len(decoded(flac)) == samples
    sound = spoken([3] * 10)
    others = [file_of(sound, SAMPLE_RATE, kind=kind) for kind in ("FLAC", "WAV")]
    for other in (*others, *(container_of(sound, form, SAMPLE_RATE) for form in ("m4a", "aac"))):
        assert len(decoded(flac + other)) == samples + len(decoded(other))
    assert len(decoded(flac + bytes(100))) == samples


def test_frames_behind_one_that_is_damaged_are_found() -> None:
    flac, first = flac_of(*SOUNDS["speech"])
    damaged = bytearray(flac)
    damaged[len(flac) // 3 : len(flac) * 2 // 3] = bytes(len(flac) * 2 // 3 - len(flac) // 3)
    with part_of(flac) as whole, part_of(bytes(damaged)) as part:
        assert last_frame(part, first, part.size) == last_frame(whole, first, whole.size)


def test_a_header_whose_checksum_is_wrong_begins_no_frame() -> None:
    flac, first = flac_of(*SOUNDS["speech"])
    damaged = bytearray(flac)
    damaged[first + 5] ^= 1
    with part_of(bytes(damaged)) as part:
        assert last_frame(part, first, part.size) is None


def test_a_last_frame_is_whole_though_its_samples_lead_to_the_frames_that_follow() -> None:
    """Of noise the encoder writes the samples themselves; the last of them say that they are a frame of AAC."""
    aac = container_of(spoken([20] * 5), "aac", SAMPLE_RATE)
    size = 7 + 2 + 2  # with the checksum of the frame of FLAC behind it
    lookalike = bytes([0xFF, aac[1], aac[2], aac[3] & 0xF0, size >> 3, size << 5 & 0xFF | 0x1F, 0xFC, 1, 1])
    noise = NOISE[: BLOCK + 2000].copy()
    noise[-4:] = np.frombuffer(lookalike[1:], ">i2") / 32_768
    noise[-5] = 0xFF / 32_768
    low, _ = flac_of(noise)
    assert low[-11:-2] == lookalike
    heard = len(decoded(low)) + len(decoded(aac))
    assert len(decoded(low + aac)) == pytest.approx(heard, abs=500)
