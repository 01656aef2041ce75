import pytest

from conch_speech_worker.audio.file_bounds import FileRefused
from conch_speech_worker.audio.file_format import READ_BY_ALL, FileFormat, format_of, readable_format


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
        (b"\xff\xf1\x50\x80", FileFormat.AAC),
        (b"\xff\xf9\x4c\x80", FileFormat.AAC),
        (b"\xff\xf1\x74\x80", None),
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


@pytest.mark.parametrize(
    ("head", "readable", "code", "words"),
    [
        (b"\0\0\0\x20ftypM4A ", READ_BY_ALL, "unsupported_format", "Files of m4a and mp4 .* extra `containers`"),
        (b"\x1a\x45\xdf\xa3", READ_BY_ALL, "unsupported_format", "Files of webm .* extra `containers`"),
        (b"\xff\xf1\x50\x80", READ_BY_ALL, "unsupported_format", "Files of aac .* extra `containers`"),
        (
            b"hello",
            READ_BY_ALL,
            "unsupported_format",
            "formats: .'flac', 'mp3', 'mpga', 'oga', 'ogg', 'wav'.\\. .* convert it",
        ),
        (b"hello", tuple(FileFormat), "unsupported_format", "formats: .'aac', 'flac', 'm4a', .* 'wav', 'webm'.\\. "),
        (b"", READ_BY_ALL, "audio_too_short", "too short"),
    ],
)
def test_what_is_not_read_is_refused_by_what_would_serve(head, readable, code, words):
    with pytest.raises(FileRefused, match=words) as refused:
        readable_format(head, readable)
    assert refused.value.refusal.code == code


def test_what_is_readable_is_told():
    assert readable_format(b"\x1a\x45\xdf\xa3", tuple(FileFormat)) is FileFormat.WEBM
