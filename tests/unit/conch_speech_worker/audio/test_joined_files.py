"""Files that somebody has put together: all of them are heard, and what stands between them is passed over."""

import numpy as np
import pytest

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.audio.file_bounds import FileRefused
from testkit.models.container_files import FORMS, container_of
from testkit.models.damaged_sound import KINDS
from testkit.models.decoded_file import decoded
from testkit.models.tone_speech import Sound, file_of, spoken

LOW, HIGH = 5, 20
LOW_HZ, HIGH_HZ = 500, 1100
ID3V1 = b"TAG" + b"a title".ljust(125)
ID3V2 = b"ID3\x04\0\0\0\0\x02\0" + bytes(256)
APE = b"APETAGEX" + (2000).to_bytes(4, "little") + (32).to_bytes(4, "little") + bytes(16) + b"APETAGEX" + bytes(24)
BETWEEN = {"nothing": b"", "an old tag": ID3V1, "tags": APE + ID3V1 + ID3V2, "zeros": bytes(5000)}
NAMES = [*KINDS, *(form for form in FORMS if form != "aac")]


def file(name: str, sound: Sound, rate: int = SAMPLE_RATE, channels: int = 1) -> bytes:
    if name in FORMS:
        return container_of(sound, name, rate, channels=channels)
    kind, subtype = KINDS[name]
    return file_of(sound, rate, kind=kind, subtype=subtype, channels=channels)


def tone_hz(sound: Sound) -> float:
    return float(np.fft.rfftfreq(len(sound), 1 / SAMPLE_RATE)[np.abs(np.fft.rfft(sound)).argmax()])


def check(heard: Sound, first_s: float, second_s: float) -> None:
    """Check that a low tone is heard for so long and then a high one."""
    assert len(heard) / SAMPLE_RATE == pytest.approx(first_s + second_s, abs=0.3)
    edge = round(first_s * SAMPLE_RATE)
    assert tone_hz(heard[: edge - 4000]) == pytest.approx(LOW_HZ, abs=5)
    assert tone_hz(heard[edge + 4000 :]) == pytest.approx(HIGH_HZ, abs=5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("words", [(10, 5), (5, 10), (10, 10)])
def test_two_of_a_kind_are_heard_one_behind_the_other(name: str, words: tuple[int, int]) -> None:
    first, second = file(name, spoken([LOW] * words[0])), file(name, spoken([HIGH] * words[1]))
    check(decoded(first + second), *(count * 0.2 for count in words))


@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "vorbis", "opus"])
@pytest.mark.parametrize("between", BETWEEN)
def test_what_stands_between_them_is_passed_over(name: str, between: str) -> None:
    first, second = file(name, spoken([LOW] * 10)), file(name, spoken([HIGH] * 10))
    check(decoded(first + BETWEEN[between] + second), 2, 2)


@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "vorbis", "opus", "m4a", "webm"])
def test_rates_and_channels_may_differ(name: str) -> None:
    first = file(name, spoken([LOW] * 10, 48_000), 48_000, channels=2)
    check(decoded(first + file(name, spoken([HIGH] * 10, 24_000), 24_000)), 2, 2)


def test_kinds_may_differ_where_the_first_one_tells_its_end() -> None:
    for name in ("wav", "mp3", "vorbis", "m4a"):
        check(decoded(file(name, spoken([LOW] * 10)) + file("flac", spoken([HIGH] * 10))), 2, 2)


@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "vorbis", "opus"])
def test_many_are_as_long_as_all_of_them(name: str) -> None:
    one = file(name, spoken([LOW] * 5))
    assert len(decoded(one * 20)) / SAMPLE_RATE == pytest.approx(20 * len(decoded(one)) / SAMPLE_RATE, abs=0.5)
    with pytest.raises(FileRefused) as refused:
        decoded(one * 20, 15.0)
    assert refused.value.refusal.message == "Expected at most 15 seconds of audio."


def test_one_of_them_alone_may_be_too_short_to_be_heard() -> None:
    one = file("wav", spoken([LOW])[:1000])
    with pytest.raises(FileRefused, match="too short"):
        decoded(one)
    assert len(decoded(one + one)) == 2000


def test_one_that_cannot_be_decoded_is_no_silence() -> None:
    with pytest.raises(FileRefused, match="cannot be decoded"):
        decoded(file("flac", spoken([LOW] * 10)) + b"fLaC\0\0\0\x22" + bytes(100))


@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "vorbis", "opus"])
@pytest.mark.parametrize("tail", [ID3V1, APE + ID3V1, bytes(3000), b"a note of somebody's"])
def test_what_stands_behind_a_file_is_no_sound(name: str, tail: bytes) -> None:
    alone = file(name, spoken([LOW] * 10))
    heard = decoded(alone + tail)
    assert len(heard) == len(decoded(alone))
    assert tone_hz(heard) == pytest.approx(LOW_HZ, abs=5)


@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "aac"])
def test_a_tag_in_front_hides_no_kind(name: str) -> None:
    alone = file(name, spoken([LOW] * 10))
    assert len(decoded(ID3V2 + alone)) == len(decoded(alone))


def test_a_tag_that_says_that_it_is_all_there_is_hides_no_mp3_in_silence() -> None:
    with pytest.raises(FileRefused, match="cannot be decoded"):
        decoded(b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + file("mp3", spoken([LOW] * 10)))
