"""Files that PyAV writes, whole, damaged and disguised, as the extra `containers` reads them."""

import random
import tempfile
from types import SimpleNamespace

import av
import numpy as np
import pytest

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.audio import containers
from conch_speech_worker.audio.file_bounds import FileRefused, SoundLength
from conch_speech_worker.audio.file_format import HEAD_BYTES, FileFormat, format_of
from conch_speech_worker.audio.file_part import FilePart
from testkit.models.container_files import FORMS, container_of
from testkit.models.decoded_file import decoded
from testkit.models.tone_speech import silence, spoken

FTYP = b"\0\0\0\x20ftypM4A " + bytes(20)


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("form", [form for form in FORMS if form != "mp4-mp3"])
def test_every_form_gives_its_sound(form: str, channels: int) -> None:
    sound = decoded(container_of(spoken([5] * 10), form, SAMPLE_RATE, channels=channels))
    assert len(sound) / SAMPLE_RATE == pytest.approx(2, abs=0.15)
    assert abs(np.fft.rfftfreq(len(sound), 1 / SAMPLE_RATE)[np.abs(np.fft.rfft(sound)).argmax()] - 500) < 5


@pytest.mark.parametrize("form", FORMS)
def test_what_is_too_long_is_refused_by_what_it_says_or_by_what_comes_out(form: str) -> None:
    with pytest.raises(FileRefused) as refused:
        decoded(container_of(silence(5, 48_000), form), 4.0)
    assert refused.value.refusal.code == "audio_too_long"


@pytest.mark.parametrize("form", ["m4a", "webm"])
def test_what_says_that_it_is_too_long_is_not_decoded(form: str) -> None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(container_of(silence(5, 48_000), form))
        found = FileFormat("mp4" if form == "m4a" else form)
        with pytest.raises(FileRefused, match="at most 4 seconds"):
            next(containers.samples_of(FilePart(file.fileno()), found, SoundLength(4.0)))


@pytest.mark.parametrize(
    ("file", "code", "words"),
    [
        (container_of(silence(0.02, 48_000), "webm"), "audio_too_short", "0.1 seconds"),
        (container_of(silence(1, 48_000), "m4a", channels=2, tracks=0, video=True), "unsupported_format", "no sound"),
        (container_of(silence(1, 1000), "matroska-flac", 1000), "invalid_audio", "4000 to 192000"),
        (FTYP + b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n", "invalid_audio", "decoded"),
        (FTYP, "invalid_audio", "decoded"),
        (b"\x1a\x45\xdf\xa3" + b"ffconcat version 1.0\nfile /etc/passwd\n", "invalid_audio", "decoded"),
        (b"\xff\xf1\x50\x80#EXTM3U\nfile:///etc/passwd\n", "unsupported_format", "no sound"),
    ],
)
def test_what_cannot_be_heard_is_refused_by_its_reason(file: bytes, code: str, words: str) -> None:
    with pytest.raises(FileRefused, match=words) as refused:
        decoded(file)
    assert refused.value.refusal.code == code


def test_more_channels_than_anybody_speaks_into_are_refused() -> None:
    with pytest.raises(FileRefused, match="at most 8 channels, found 16"):
        decoded(container_of(silence(1, 48_000), "matroska-pcm", channels=16))


def test_a_file_that_says_that_another_holds_its_sound_opens_none(tmp_path) -> None:
    (tmp_path / "other").write_bytes(secret := container_of(spoken([9] * 10), "m4a"))
    file = container_of(spoken([5] * 10), "m4a")
    named = b"url \0\0\0\0" + str(tmp_path / "other").encode() + b"\0"
    assert b"url \0\0\0\x01" in file
    try:
        sound = decoded(file.replace(b"url \0\0\0\x01", named))
    except FileRefused:
        return
    assert not np.array_equal(sound, decoded(secret))


def test_a_decoder_that_nobody_needs_is_not_used() -> None:
    with pytest.raises(FileRefused, match="of the kind ac3") as refused:
        decoded(container_of(silence(1, 48_000), "matroska-flac", codec="ac3"))
    assert refused.value.refusal.code == "unsupported_format"


@pytest.mark.parametrize("form", ["webm", "matroska-flac", "aac"])
def test_a_file_whose_end_is_missing_gives_what_is_there(form: str) -> None:
    file = container_of(spoken([5] * 20), form, SAMPLE_RATE)
    assert 1 < len(decoded(file[: len(file) * 3 // 4])) / SAMPLE_RATE < 4


def test_a_file_of_which_most_does_not_decode_is_broken() -> None:
    file = bytearray(container_of(spoken(range(20)), "matroska-flac", SAMPLE_RATE))
    chance = random.Random(1)
    for at in range(len(file) // 8, len(file)):
        if at % 50 == 0:
            file[at] = chance.randrange(256)
    with pytest.raises(FileRefused, match=r"seconds can be read|cannot be decoded"):
        decoded(bytes(file))


def test_the_form_of_frames_may_change_on_the_way() -> None:
    one, other = (
        container_of(spoken([5] * 10, rate), "aac", rate, channels=n) for rate, n in ((48_000, 1), (24_000, 2))
    )
    assert len(decoded(one + other)) / SAMPLE_RATE == pytest.approx(4, abs=0.3)


def test_plain_aac_is_never_refused_for_a_length_that_was_guessed() -> None:
    loud, quiet = (container_of(sound, "aac") for sound in (spoken([5] * 50, 48_000), silence(1, 48_000)))
    assert len(quiet) < len(loud)
    assert len(decoded(quiet + loud, 12.0)) / SAMPLE_RATE == pytest.approx(11, abs=0.3)
    assert format_of(quiet[:HEAD_BYTES]) is FileFormat.AAC


def test_a_lack_of_memory_is_no_fault_of_a_file(monkeypatch):
    lacks = av.error.MemoryError(12, "Cannot allocate memory")

    def fails(*_):
        raise lacks

    monkeypatch.setattr(containers, "_opened", fails)
    with tempfile.TemporaryFile() as file, pytest.raises(MemoryError):
        list(containers.samples_of(FilePart(file.fileno()), FileFormat.MP4, SoundLength(60.0)))
    with pytest.raises(MemoryError):
        containers._frames(SimpleNamespace(decode=fails))
