import pytest

from conch_speech_worker.audio.file_format import FileFormat, format_of


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"RIFF\0\0\0\0WAVEfmt ", FileFormat.WAV),
        (b"RF64\0\0\0\0WAVEds64", FileFormat.WAV),
        (b"RIFF\0\0\0\0AVI LIST", None),
        (b"fLaC\0\0\0\x22", FileFormat.FLAC),
        (b"OggS\0\x02", FileFormat.OGG),
        (b"ID3\x04\0\0", FileFormat.MP3),
        (b"\xff\xfb\x90\x00", FileFormat.MP3),
        (b"\xff\xf3\x40\xc0", FileFormat.MP3),
        (b"\xff\xf1\x50\x80", None),
        (b"\xff\xff\xff\xff", None),
        (b"\0\0\0\x20ftypM4A ", FileFormat.MP4),
        (b"\x1a\x45\xdf\xa3", FileFormat.WEBM),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"PK\x03\x04", None),
        (b"", None),
    ],
)
def test_a_file_is_what_its_bytes_say(head, found):
    assert format_of(head) is found
