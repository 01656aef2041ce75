"""Files that somebody has put together: all of them are heard, and what stands between them is passed over."""

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.audio.file_bounds import FileRefused
from conch_speech_worker.audio.file_heads import next_file
from conch_speech_worker.audio.file_part import FilePart
from conch_speech_worker.audio.mpeg_frames import frame_header
from testkit.models.container_files import FORMS, container_of
from testkit.models.damaged_sound import KINDS
from testkit.models.decoded_file import decoded
from testkit.models.tone_speech import Sound, file_of, spoken

LOW, HIGH = 5, 20
LOW_HZ, HIGH_HZ = 500, 1100
ID3V1 = b"TAG" + b"a title".ljust(125)
ID3V2 = b"ID3\x04\0\0\0\0\x02\0" + bytes(256)
APE = b"APETAGEX" + (2000).to_bytes(4, "little") + (32).to_bytes(4, "little") + bytes(16) + b"APETAGEX" + bytes(24)
LYRICS = b"LYRICSBEGIN" + b"IND0000200" + b"LYR04900" + b"la la ".ljust(4900, b"!") + b"004918LYRICS200"
BETWEEN = {
    "nothing": b"",
    "an old tag": ID3V1,
    "tags": APE + ID3V1 + ID3V2,
    "lyrics": LYRICS + ID3V1,
    "zeros": bytes(5000),
    "a note": b"somebody's note",
}
JUNK = random.Random(1).randbytes(30_000)
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


def piped_mp3(sound: Sound, rate: int = SAMPLE_RATE) -> bytes:
    """Return an MP3 of which no frame tells how many follow."""
    return without_first_frame(file("mp3", sound, rate))


def without_first_frame(mp3: bytes) -> bytes:
    first = frame_header(mp3)
    assert first is not None
    return mp3[first.size :]


def piped_wav(sound: Sound, size: int) -> bytes:
    wav, told = file_of(sound), size.to_bytes(4, "little")
    return wav[:4] + told + wav[8:40] + told + wav[44:]


def piped_webm(sound: Sound) -> bytes:
    """Return a webm whose segment does not say how long it is."""
    webm = container_of(sound, "webm", SAMPLE_RATE)
    at = webm.index(b"\x18\x53\x80\x67") + 4
    return webm[:at] + b"\x01" + b"\xff" * 7 + webm[at + 8 :]


OF_ANY_KIND = {
    "wav": file_of,
    "wav of unknown length": lambda sound: piped_wav(sound, 2**32 - 1),
    "wav of no length": lambda sound: piped_wav(sound, 0),
    "flac": lambda sound: file("flac", sound),
    "vorbis": lambda sound: file("vorbis", sound),
    "mp3": lambda sound: file("mp3", sound),
    "mp3 of unknown length": piped_mp3,
    "mp3 of another rate": lambda sound: piped_mp3(np.repeat(sound, 3), 48_000),
    "aac": lambda sound: file("aac", sound),
    "m4a": lambda sound: file("m4a", sound),
    "webm": lambda sound: file("webm", sound),
    "webm of unknown length": piped_webm,
}


@pytest.mark.parametrize("second", OF_ANY_KIND)
@pytest.mark.parametrize("first", OF_ANY_KIND)
def test_kinds_may_differ(first: str, second: str) -> None:
    low, high = OF_ANY_KIND[first](spoken([LOW] * 10)), OF_ANY_KIND[second](spoken([HIGH] * 10))
    check(decoded(low + high), 2, 2)
    assert len(decoded(low + high + low)) / SAMPLE_RATE == pytest.approx(6, abs=0.4)


@pytest.mark.parametrize("second", [*OF_ANY_KIND, "opus"])
@pytest.mark.parametrize("last", [b"\xff\xff", b"\xff\xfb", b"\xff\xe3", b"\xff\xf1", b"\xff\xff\xff"])
def test_last_bytes_that_look_like_a_frame_hide_no_beginning(tmp_path: Path, last: bytes, second: str) -> None:
    high = OF_ANY_KIND.get(second, lambda sound: file(second, sound))(spoken([HIGH] * 5))
    (tmp_path / "file").write_bytes(bytes(100) + last + high)
    with (tmp_path / "file").open("rb") as opened:
        part = FilePart(opened.fileno())
        assert next_file(part, 0, part.size) == 100 + len(last)


@pytest.mark.parametrize("second", ["wav", "flac", "mp3", "mp3 of unknown length", "webm"])
@pytest.mark.parametrize("first", ["flac", "mp3", "mp3 of unknown length", "opus", "aac"])
def test_of_a_file_behind_one_whose_end_is_missing_nothing_is_lost(first: str, second: str) -> None:
    low = OF_ANY_KIND.get(first, lambda sound: file(first, sound))(spoken([LOW] * 50))
    high = OF_ANY_KIND[second](spoken([HIGH] * 10))
    cut = low[: len(low) * 4 // 5 - 1]
    assert len(decoded(cut + high)) == pytest.approx(len(decoded(cut)) + 2 * SAMPLE_RATE, abs=0.1 * SAMPLE_RATE)


@pytest.mark.parametrize("second", ["flac", "mp3", "wav"])
@pytest.mark.parametrize("first", ["wav", "m4a", "webm"])
def test_where_an_end_is_told_that_is_in_another_file_none_is_heard_in_part(first: str, second: str) -> None:
    low, high = file(first, spoken([LOW] * 50)), file(second, spoken([HIGH] * 50))
    cut = low[: -len(high) // 2]
    with suppress(FileRefused):
        heard = decoded(cut + high)
        assert len(heard) == pytest.approx(len(decoded(cut)) + 10 * SAMPLE_RATE, abs=0.1 * SAMPLE_RATE)


@pytest.mark.parametrize("told", [0, 10, 2**31 - 1, 2**32 - 1])
def test_an_mp3_that_tells_a_wrong_number_of_frames_is_heard_to_its_end(told: int) -> None:
    mp3 = bytearray(file("mp3", spoken([LOW] * 10)))
    at = mp3.index(b"Info" if b"Info" in mp3 else b"Xing") + 8
    mp3[at : at + 4] = told.to_bytes(4, "big")
    check(decoded(bytes(mp3) + file("mp3", spoken([HIGH] * 10))), 2, 2)
    check(decoded(bytes(mp3) + piped_mp3(spoken([HIGH] * 10))), 2, 2)


def test_an_mp3_is_heard_behind_frames_that_are_damaged() -> None:
    mp3 = bytearray(piped_mp3(spoken([LOW] * 50)))
    for at in (len(mp3) // 4, len(mp3) // 2):
        mp3[at : at + 100] = bytes(range(100))
    assert len(decoded(bytes(mp3))) / SAMPLE_RATE == pytest.approx(10, abs=0.3)


@pytest.mark.parametrize("name", ["wav", "mp3", "vorbis", "opus", "aac", "m4a", "webm"])
@pytest.mark.parametrize("following", [b"", file("wav", spoken([HIGH] * 10))])
def test_where_much_stands_that_is_no_sound_it_is_said_where(name: str, following: bytes) -> None:
    with pytest.raises(FileRefused, match=r"^After about 2 seconds something .* Send files .* one by one") as refused:
        decoded(file(name, spoken([LOW] * 10)) + JUNK + following)
    assert refused.value.refusal.code == "invalid_audio"


@pytest.mark.parametrize("name", NAMES)
def test_zeros_behind_a_file_are_passed_over(name: str) -> None:
    low = file(name, spoken([LOW] * 10))
    assert len(decoded(low + bytes(200_000))) == pytest.approx(len(decoded(low)), abs=100)
    check(decoded(low + bytes(200_000) + file("m4a", spoken([HIGH] * 10))), 2, 2)


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


def of_mpeg_2(aac: bytes) -> bytes:
    """Return the same frames of AAC with headers that begin as those of FLAC do."""
    frames, at = bytearray(aac), 0
    while (found := frame_header(frames[at:])) is not None:
        frames[at + 1] |= 8
        at += found.size
    assert at == len(frames)
    return bytes(frames)


def test_aac_is_heard_behind_a_flac_whose_frames_begin_alike() -> None:
    low, high = file("flac", spoken([LOW] * 10)), of_mpeg_2(file("aac", spoken([HIGH] * 10)))
    check(decoded(low + high), 2, 2)
    check(decoded(low + ID3V2 + high), 2, 2)


@pytest.mark.parametrize(("value", "channels"), [(-2, 1), (-3, 1), (-30, 2)])
def test_a_flac_is_one_file_though_frames_of_its_pauses_look_like_those_of_others(value: int, channels: int) -> None:
    pause = np.full(44_100 * 120, value / 32_768, np.float32)
    heard = decoded(file("flac", pause, 44_100, channels), 200)
    assert len(heard) == 120 * SAMPLE_RATE


def test_chance_makes_no_frame_of_aac_out_of_the_last_bytes_before_one(tmp_path: Path) -> None:
    aac, before = file("aac", spoken([HIGH] * 5)), b"some samples"
    lookalike = bytes([0xFF, 0xF1, aac[2] ^ 4, aac[3] & 0xF0, 0x03, 0x1F, 0xFC]).ljust(24, b"a")
    first = frame_header(lookalike)
    assert first is not None
    assert first.size == len(lookalike)
    (tmp_path / "file").write_bytes(before + lookalike + aac)
    with (tmp_path / "file").open("rb") as opened:
        part = FilePart(opened.fileno())
        assert next_file(part, 0, part.size) == len(before + lookalike)


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
