"""What the Hub and a bucket have in common: a list of files with sizes and checksums, and reading from an offset on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Protocol

from conch_contracts.conditions import Reason
from conch_operator.download.errors import DownloadError


class Algorithm(StrEnum):
    """How a checksum was made."""

    SHA256 = "sha256"
    GIT_BLOB = "git-blob"
    """SHA-1 over git's header and the content."""
    MD5 = "md5"
    MD5_OF_PARTS = "md5-of-parts"
    """MD5 over the MD5s of parts of equal size: what S3 says about an object that was uploaded in parts."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """What the content of a file must give."""

    algorithm: Algorithm
    digest: str
    part_bytes: int = 0
    """Of each part but the last."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file, by its path below the folder."""

    path: str
    size: int
    checksum: Checksum | None = None
    """None where the source says nothing but the size."""

    def __post_init__(self) -> None:
        parts = self.path.split("/")
        if not self.path or any(part in ("", ".", "..") for part in parts) or "\\" in self.path or "\0" in self.path:
            raise DownloadError(
                Reason.DOWNLOAD_FAILED, f"A file is called {self.path!r}, which leads out of its folder."
            )


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything that a source holds at one moment."""

    version: str
    """Changes with the content of any file."""
    files: Sequence[RemoteFile]


class Remote(Protocol):
    """One repository, or one folder of a bucket; every call raises DownloadError."""

    @property
    def name(self) -> str:
        """Return what a user calls it."""

    def listing(self) -> Listing:
        """Return what it holds now."""

    def checksum(self, file: RemoteFile) -> Checksum | None:
        """Return what the file's content must give; asked once the file is there."""

    def fetch(self, file: RemoteFile, into: BinaryIO, have: int) -> None:
        """Append a file's bytes from `have` on, not many more than its size; what came before an error stays."""


def append(chunks: Iterable[bytes], into: BinaryIO, file: RemoteFile) -> None:
    """Append these bytes, and stop once they are too many: a source that never ends must not fill the volume."""
    for chunk in chunks:
        into.write(chunk)
        if into.tell() > file.size:
            return
