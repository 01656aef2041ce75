"""Whether a file's content is what its source says it is."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from conch_operator.download.remote_source import Algorithm, Checksum

_CHUNK = 4 * 1024 * 1024


def matches(file: Path, checksum: Checksum) -> bool:
    """Return whether the file gives this checksum."""
    match checksum.algorithm:
        case Algorithm.SHA256:
            found = _digest(file, hashlib.sha256())
        case Algorithm.GIT_BLOB:
            header = f"blob {file.stat().st_size}\0".encode()
            found = _digest(file, hashlib.sha1(header, usedforsecurity=False))
        case Algorithm.MD5:
            found = _digest(file, hashlib.md5(usedforsecurity=False))
        case Algorithm.MD5_OF_PARTS:
            found = _of_parts(file, checksum.part_bytes)
    return found == checksum.digest


def _digest(file: Path, state: "hashlib._Hash") -> str:
    for chunk in _chunks(file, _CHUNK):
        state.update(chunk)
    return state.hexdigest()


def _of_parts(file: Path, part_bytes: int) -> str:
    whole, count = hashlib.md5(usedforsecurity=False), 0
    part, room = hashlib.md5(usedforsecurity=False), part_bytes
    for chunk in _chunks(file, _CHUNK):
        view = memoryview(chunk)
        while view:
            taken, view = view[:room], view[room:]
            part.update(taken)
            room -= len(taken)
            if room == 0:
                whole.update(part.digest())
                count, room = count + 1, part_bytes
                part = hashlib.md5(usedforsecurity=False)
    if room != part_bytes:
        whole.update(part.digest())
        count += 1
    return f"{whole.hexdigest()}-{count}"


def _chunks(file: Path, size: int) -> Iterator[bytes]:
    with file.open("rb") as content:
        while chunk := content.read(size):
            yield chunk
