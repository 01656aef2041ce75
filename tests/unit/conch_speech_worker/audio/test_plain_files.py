"""Files that the library of sounds reads by itself."""

import tempfile

import pytest

from conch_speech_worker.audio.file_bounds import FileRefused
from conch_speech_worker.audio.plain_files import samples_of


@pytest.mark.parametrize("content", [b"", b"no sound", b"RIFF\x24\0\0\0WAVEfmt ", b"fLaC" + b"\0" * 40])
def test_what_the_library_cannot_read_is_refused(content: bytes) -> None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(content)
        file.seek(0)
        with pytest.raises(FileRefused):
            list(samples_of(file.fileno(), 60.0))
