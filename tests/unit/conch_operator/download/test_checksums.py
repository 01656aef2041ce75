import hashlib
from pathlib import Path

import pytest

from conch_operator.download.checksums import matches
from conch_operator.download.remote_source import Algorithm, Checksum

DATA = b"0123456789abcdef" * 64


def md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


PARTS = md5(md5(DATA[:400]) + md5(DATA[400:800]) + md5(DATA[800:])).hex() + "-3"


@pytest.mark.parametrize(
    "checksum",
    [
        Checksum(Algorithm.SHA256, hashlib.sha256(DATA).hexdigest()),
        Checksum(Algorithm.GIT_BLOB, hashlib.sha1(b"blob 1024\0" + DATA, usedforsecurity=False).hexdigest()),
        Checksum(Algorithm.MD5, md5(DATA).hex()),
        Checksum(Algorithm.MD5_OF_PARTS, PARTS, part_bytes=400),
    ],
)
def test_content_is_compared_as_its_source_does(tmp_path: Path, checksum: Checksum) -> None:
    file = tmp_path / "file"
    file.write_bytes(DATA)
    assert matches(file, checksum)
    file.write_bytes(DATA[:-1] + b"x")
    assert not matches(file, checksum)
