"""Files that the library of sounds reads by itself: whole, of unknown length, without their ends, damaged."""

import io
import struct

import av
import numpy as np
import pytest
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream

from conch_contracts.dialects.speech import SAMPLE_RATE
from conch_speech_worker.audio.file_bounds import FileRefused
from testkit.models.decoded_file import decoded
from testkit.models.tone_speech import Sound, file_of, silence, spoken

LONG = spoken([number % 64 for number in range(165)])
"""33 seconds: more than one block, and a block is not full at the end."""
COMPRESSED = {"flac": ("FLAC", "PCM_16"), "vorbis": ("OGG", "VORBIS"), "opus": ("OGG", "OPUS"), "mp3": ("MP3", None)}


def long_file(name: str) -> bytes:
    kind, subtype = COMPRESSED[name]
    return file_of(LONG, kind=kind, subtype=subtype)


@pytest.mark.parametrize("content", [b"RIFF\x24\0\0\0WAVEfmt ", b"fLaC" + b"\0" * 40, b"OggS" + bytes(100)])
def test_what_the_library_cannot_read_is_refused(content: bytes) -> None:
    with pytest.raises(FileRefused, match=r"cannot be decoded: .* Check that it is whole and plays") as refused:
        decoded(content)
    assert refused.value.refusal.code == "invalid_audio"


@pytest.mark.parametrize("name", ["mp3", "vorbis"])
def test_where_next_to_nothing_is_left_of_a_file_it_is_said_that_no_sound_is_in_it(name: str) -> None:
    with pytest.raises(FileRefused, match=r"no sound is found in it|malformed") as refused:
        decoded(long_file(name)[:130])
    assert refused.value.refusal.code == "invalid_audio"


def without_length(flac: bytes) -> bytes:
    """Return a FLAC as encoders write it to a pipe: its number of samples, the last 36 of 64 bits, is 0."""
    return flac[:18] + (int.from_bytes(flac[18:26], "big") >> 36 << 36).to_bytes(8, "big") + flac[26:]


def test_a_flac_that_was_written_to_a_pipe_is_heard() -> None:
    flac = long_file("flac")
    assert np.array_equal(decoded(without_length(flac)), decoded(flac))


def piped_mp3(sound: Sound) -> bytes:
    """Return an MP3 of frames of many sizes, as an encoder writes it to a pipe: nothing tells its length."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp3", options={"write_xing": "0", "id3v2_version": "0"}) as file:
        stream = file.add_stream("libmp3lame", rate=48_000)
        assert isinstance(stream, AudioStream)
        stream.layout = "mono"
        stream.codec_context.qscale = True
        stream.codec_context.global_quality = 4 * 118  # of 118 each: its fourth best
        for at in range(0, len(sound), 1152):
            frame = AudioFrame.from_ndarray(sound[np.newaxis, at : at + 1152].copy(), "fltp", "mono")
            frame.sample_rate, frame.pts = 48_000, at
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return buffer.getvalue()


@pytest.mark.parametrize("begins_loud", [True, False])
def test_an_mp3_that_was_written_to_a_pipe_is_heard_to_its_end(*, begins_loud: bool) -> None:
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 48_000 * 5).astype(np.float32)
    parts = [noise, silence(20, 48_000), spoken([5] * 10, 48_000)]
    file = piped_mp3(np.concatenate(parts if begins_loud else parts[1:]))
    heard = decoded(file)
    assert len(heard) / SAMPLE_RATE == pytest.approx(27 if begins_loud else 22, abs=0.1)
    assert np.abs(heard[-SAMPLE_RATE:]).max() > 0.2
    with pytest.raises(FileRefused, match="at most 10 seconds"):
        decoded(file, 10.0)


def test_a_wav_that_was_written_to_a_pipe_is_heard() -> None:
    wav = file_of(LONG, kind="WAV")
    streamed = wav[:4] + b"\xff" * 4 + wav[8:40] + b"\xff" * 4 + wav[44:]
    assert np.array_equal(decoded(streamed), decoded(wav))


@pytest.mark.parametrize("name", COMPRESSED)
@pytest.mark.parametrize("share", [0.1, 0.3, 0.55, 0.9, 0.999])
def test_of_a_file_whose_end_is_missing_all_is_heard_that_is_there(name: str, share: float) -> None:
    whole = long_file(name)
    heard, all_of_it = decoded(whole[: int(len(whole) * share)]), decoded(whole)
    assert len(heard) / SAMPLE_RATE == pytest.approx(share * 33, abs=2.5 if name == "vorbis" else 0.9)
    same = len(heard) - SAMPLE_RATE // 10
    assert np.allclose(heard[:same], all_of_it[:same], atol=2e-4)


def test_a_flac_without_its_last_bytes_lacks_one_frame_of_it_and_no_more() -> None:
    flac = long_file("flac")
    assert len(decoded(flac)) - len(decoded(flac[:-20])) <= 4608


@pytest.mark.parametrize("name", ["vorbis", "opus"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.9])
def test_an_ogg_that_is_damaged_is_refused_by_where_it_is(name: str, share: float) -> None:
    data = bytearray(long_file(name))
    at = int(len(data) * share)
    data[at : at + 20] = bytes(20)
    with pytest.raises(FileRefused, match=r"damaged after about (\d+) seconds") as refused:
        decoded(bytes(data))
    assert refused.value.refusal.code == "invalid_audio"


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7, 0.95])
def test_a_flac_that_is_damaged_is_refused(share: float) -> None:
    data = bytearray(long_file("flac"))
    at = int(len(data) * share)
    data[at : at + 200] = bytes(200)
    with pytest.raises(FileRefused, match="cannot be decoded") as refused:
        decoded(bytes(data))
    assert refused.value.refusal.code == "invalid_audio"


def test_a_short_flac_that_is_damaged_is_not_heard_in_part() -> None:
    data = bytearray(file_of(spoken([5] * 10), kind="FLAC"))
    at = len(data) // 2
    data[at : at + 50] = bytes(50)
    with pytest.raises(FileRefused, match="cannot be decoded"):
        decoded(bytes(data))


def test_a_rate_that_nobody_records_with_is_refused() -> None:
    wav = bytearray(file_of(LONG, kind="WAV"))
    wav[24:28] = struct.pack("<I", 3999)
    with pytest.raises(FileRefused, match="from 4000 to 192000 samples a second, found 3999"):
        decoded(bytes(wav))
