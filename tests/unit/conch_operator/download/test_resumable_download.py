"""What a process finds that a last one has left, and what it makes of it; with a source in memory."""

import errno
import fcntl
import hashlib
import io
import itertools
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import pytest

from conch_contracts.conditions import Reason
from conch_operator.download.errors import DownloadError
from conch_operator.download.file_selection import Selection
from conch_operator.download.remote_source import Algorithm, Checksum, Listing, RemoteFile, append
from conch_operator.download.resumable_download import PARTS, WaitTimes, download_folder

AT_ONCE = WaitTimes(retry_s=0, lock_s=0)
CONTENT = b"0123456789"


class Memory:
    """A source of one file."""

    name = "memory"

    def __init__(self) -> None:
        self.version = "1"
        self.content = CONTENT
        self.size = len(CONTENT)
        self.fetched: list[int] = []
        self.says_checksum = True
        self.cut_at: int | None = None
        self.on_listing: Callable[[], None] = lambda: None

    def listing(self) -> Listing:
        self.on_listing()
        return Listing(self.version, [RemoteFile("weights", self.size)])

    def checksum(self, file: RemoteFile) -> Checksum | None:
        return Checksum(Algorithm.SHA256, hashlib.sha256(self.content).hexdigest()) if self.says_checksum else None

    def fetch(self, file: RemoteFile, into: BinaryIO, have: int) -> None:
        self.fetched.append(have)
        into.write(self.content[have : self.cut_at])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models" / "tiny"


def bring(remote: Memory, folder: Path) -> None:
    download_folder(remote, folder, Selection.ALL, waits=AT_ONCE)


def stop_half_way(folder: Path, version: str = "1") -> Path:
    """Leave what a process leaves that ended after five bytes, and return that part."""
    remote = Memory()
    remote.version, remote.cut_at = version, 5
    with pytest.raises(DownloadError):
        bring(remote, folder)
    part = folder.with_name(".tiny.draft") / PARTS / "weights"
    assert part.read_bytes() == CONTENT[:5]
    return part


def test_the_next_process_goes_on_where_the_last_one_stopped(folder: Path) -> None:
    stop_half_way(folder)
    remote = Memory()
    bring(remote, folder)
    assert remote.fetched == [5]
    assert (folder / "weights").read_bytes() == CONTENT


def test_what_has_come_of_another_version_is_not_gone_on_with(folder: Path) -> None:
    stop_half_way(folder, version="0")
    remote = Memory()
    remote.says_checksum = False
    bring(remote, folder)
    assert remote.fetched == [0]


def test_a_part_that_is_longer_than_its_file_is_fetched_anew(folder: Path) -> None:
    stop_half_way(folder).write_bytes(b"x" * 11)
    remote, attempts = Memory(), []
    remote.says_checksum = False
    remote.on_listing = lambda: attempts.append(1)
    bring(remote, folder)
    assert remote.fetched == [0]
    assert len(attempts) == 1, "it is no fault of the source"
    assert (folder / "weights").read_bytes() == CONTENT


@pytest.mark.parametrize("says_checksum", [True, False])
def test_a_file_that_ends_too_early_is_not_taken_for_whole(folder: Path, says_checksum: bool) -> None:
    remote = Memory()
    remote.says_checksum, remote.cut_at = says_checksum, 9
    with pytest.raises(DownloadError, match="sent 9 of 10 bytes of weights") as raised:
        bring(remote, folder)
    assert raised.value.reason is Reason.SOURCE_UNREACHABLE
    assert not folder.exists()


def test_a_file_that_is_too_long_is_wrong_even_without_a_checksum(folder: Path) -> None:
    remote = Memory()
    remote.says_checksum, remote.content = False, CONTENT + b"x"
    with pytest.raises(DownloadError, match="wrong checksum"):
        bring(remote, folder)
    assert not folder.exists()


def test_two_never_write_the_same_files(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    remote = Memory()
    with folder.with_name(".tiny.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(DownloadError, match="Another pod is downloading the same files"):
            bring(remote, folder)
        assert remote.fetched == []
    bring(remote, folder)
    assert remote.fetched == [0]


def test_what_another_has_finished_meanwhile_is_not_fetched_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def finished_before_the_lock_is_ours(lock: int, operation: int) -> None:
        flock(lock, operation)
        folder.mkdir()

    monkeypatch.setattr(fcntl, "flock", finished_before_the_lock_is_ours)
    remote = Memory()
    bring(remote, folder)
    assert remote.fetched == []


@pytest.mark.parametrize(("free", "fits"), [(9, False), (10, True)])
def test_what_does_not_fit_the_volume_is_refused_before_a_byte_comes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, free: int, fits: bool
) -> None:
    class Space:
        f_bavail = free
        f_frsize = 1

    monkeypatch.setattr(os, "statvfs", lambda path: Space)
    remote = Memory()
    if fits:
        bring(remote, folder)
    else:
        with pytest.raises(DownloadError, match="needs 10 bytes more, and the volume has 9 bytes"):
            bring(remote, folder)
    assert remote.fetched == ([0] if fits else [])


@pytest.mark.parametrize(("limit", "fits"), [(9, False), (10, True)])
def test_what_is_larger_than_its_cache_may_be_is_refused_before_a_byte_comes(
    folder: Path, limit: int, fits: bool
) -> None:
    remote = Memory()
    with nullcontext() if fits else pytest.raises(DownloadError, match=r"cache\.size allows 9 bytes"):
        download_folder(remote, folder, Selection.ALL, limit, AT_ONCE)
    assert remote.fetched == ([0] if fits else [])


def test_a_folder_that_is_there_is_asked_for_nowhere_and_waits_for_nobody(folder: Path) -> None:
    bring(Memory(), folder)
    remote = Memory()
    remote.on_listing = lambda: pytest.fail("the source was asked")
    with folder.with_name(".tiny.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        bring(remote, folder)
    assert remote.fetched == []


def test_a_file_that_is_whole_is_not_fetched_again(folder: Path) -> None:
    part = stop_half_way(folder)
    (part.parent.parent / "weights").write_bytes(CONTENT)
    remote = Memory()
    bring(remote, folder)
    assert remote.fetched == []


def test_what_came_with_a_wrong_checksum_is_thrown_away(folder: Path) -> None:
    remote = Memory()
    remote.content = b"9876543210"
    remote.checksum = lambda file: Checksum(Algorithm.SHA256, "0" * 64)  # type: ignore[method-assign]
    with pytest.raises(DownloadError, match="wrong checksum"):
        bring(remote, folder)
    good = Memory()
    bring(good, folder)
    assert good.fetched == [0]


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, Reason.INSUFFICIENT_STORAGE),
        (errno.EDQUOT, Reason.INSUFFICIENT_STORAGE),
        (errno.EROFS, Reason.DOWNLOAD_FAILED),
    ],
)
def test_a_disk_that_takes_nothing_is_told(folder: Path, number: int, reason: Reason) -> None:
    def fails(file: RemoteFile, into: BinaryIO, have: int) -> None:
        raise OSError(number, os.strerror(number))

    remote = Memory()
    remote.fetch = fails  # type: ignore[method-assign]
    with pytest.raises(DownloadError) as raised:
        bring(remote, folder)
    assert raised.value.reason is reason
    assert not folder.exists()


def test_a_source_that_never_ends_does_not_fill_the_volume() -> None:
    into = io.BytesIO()
    append(itertools.repeat(b"1234", 1000), into, RemoteFile("weights", 10))
    assert into.getvalue() == b"1234" * 3


def test_what_has_its_name_is_on_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a machine that loses its power may leave a folder that looks whole, with files of nothing."""
    written: list[tuple[str, bool]] = []

    def fsync(handle: int) -> None:
        written.append((Path(f"/proc/self/fd/{handle}").readlink().name, folder.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    bring(Memory(), folder)
    assert written == [("weights", False), (".tiny.draft", False), ("models", True)]
