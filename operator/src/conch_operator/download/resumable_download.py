"""Downloads a folder so that another process can go on where this one stopped.

Files come into a draft beside the folder, which gets the folder's name when all of them are there and right.

ROOT/NAME/                 the folder, complete; once it is there, nobody asks the source again
ROOT/.NAME.draft/          what has come so far: each file here is whole and right
ROOT/.NAME.draft/.conch-parts/          files that are not whole yet; no file of a source is below a dotted name
ROOT/.NAME.draft/.conch-download.json   how much it will be, and which version of the source
ROOT/.NAME.lock            held by the one that downloads; others on the same volume wait a while for it

A process that is started after a kill, or a pod on the same volume, goes on with what the last one left.
"""

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from conch_contracts.conditions import Reason
from conch_operator.download.checksums import matches
from conch_operator.download.errors import DownloadError
from conch_operator.download.file_selection import Selection, select
from conch_operator.download.remote_source import Remote, RemoteFile

NOTE = ".conch-download.json"
PARTS = ".conch-parts"
_ATTEMPTS = 3
_LOOK_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """How far a download is."""

    done_bytes: int
    total_bytes: int

    def __str__(self) -> str:
        percent = 100 * self.done_bytes // self.total_bytes if self.total_bytes else 100
        return f"{percent // 10 * 10} % of {size_text(self.total_bytes)}"


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """How long a process waits before it leaves the rest to the next one."""

    retry_s: float = 0.5
    """Between two attempts; longer each time."""
    lock_s: float = 600.0
    """For another process that downloads the same files; it may also hang, or be on a node that is lost."""


def progress_of(folder: Path) -> DownloadProgress | None:
    """Return how far the download of a folder is; None when none has begun."""
    draft = _draft(folder)
    try:
        total = int(json.loads((draft / NOTE).read_text())["bytes"])
        return DownloadProgress(_present_bytes(draft), total)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def download_folder(
    remote: Remote,
    folder: Path,
    selection: Selection,
    limit_bytes: int | None = None,
    waits: WaitTimes = WaitTimes(),
) -> None:
    """Download a folder unless it is there; raises DownloadError, and keeps what has come for the next process.

    It tries again only for a few seconds, unless each attempt brings something.
    """
    attempt = 1
    while True:
        before = progress_of(folder)
        try:
            return _download_locked(remote, folder, selection, limit_bytes, waits)
        except DownloadError as error:
            attempt = attempt + 1 if progress_of(folder) == before else 2
            if not error.may_pass or attempt > _ATTEMPTS:
                raise
        time.sleep(waits.retry_s * (attempt - 1))


def _download_locked(
    remote: Remote, folder: Path, selection: Selection, limit_bytes: int | None, waits: WaitTimes
) -> None:
    if folder.is_dir():
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder, waits.lock_s):
            if not folder.is_dir():
                _download(remote, folder, selection, limit_bytes)
    except OSError as error:
        raise _of_disk(error, folder) from error


def _download(remote: Remote, folder: Path, selection: Selection, limit_bytes: int | None) -> None:
    listing = remote.listing()
    files = select(listing.files, selection, remote.name)
    draft = _begin(folder, listing.version, files)
    _check_room(draft, files, remote.name, limit_bytes)
    for file in files:
        _download_file(remote, file, draft)
    shutil.rmtree(draft / PARTS, ignore_errors=True)
    _sync(draft)
    draft.rename(folder)
    _sync(folder.parent)


def size_text(count: int) -> str:
    """Return a number of bytes as people write it."""
    for unit, power in (("GB", 9), ("MB", 6), ("KB", 3)):
        if count >= 10**power:
            return f"{count / 10**power:.1f} {unit}"
    return f"{count} bytes"


def _draft(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.draft")


@contextmanager
def _locked(folder: Path, lock_s: float) -> Iterator[None]:
    deadline = time.monotonic() + lock_s
    with folder.with_name(f".{folder.name}.lock").open("a") as lock:
        while not _try_lock(lock):
            if time.monotonic() >= deadline:
                raise DownloadError(
                    Reason.DOWNLOADING,
                    f"Another pod is downloading the same files to {folder}, for more than {lock_s:g} s. If nothing "
                    "comes any more, delete that pod.",
                )
            time.sleep(min(_LOOK_AGAIN_S, lock_s))
        yield


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _begin(folder: Path, version: str, files: Sequence[RemoteFile]) -> Path:
    """Return the draft: the last one when it is of the same version, else a new one."""
    draft = _draft(folder)
    note = {"version": version, "bytes": sum(file.size for file in files)}
    try:
        known = json.loads((draft / NOTE).read_text())
    except (OSError, ValueError):
        known = None
    if known != note:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        (draft / NOTE).write_text(json.dumps(note))
    return draft


def _check_room(draft: Path, files: Sequence[RemoteFile], source: str, limit_bytes: int | None) -> None:
    total = sum(file.size for file in files)
    missing = total - _present_bytes(draft)
    space = os.statvfs(draft)
    free = space.f_bavail * space.f_frsize
    if limit_bytes is not None and total > limit_bytes:
        raise DownloadError(
            Reason.INSUFFICIENT_STORAGE,
            f"{source} has {size_text(total)}, and cache.size allows {size_text(limit_bytes)}. Raise it.",
        )
    if missing > free:
        raise DownloadError(
            Reason.INSUFFICIENT_STORAGE,
            f"{source} needs {size_text(missing)} more, and the volume has {size_text(free)}. Give it a larger one.",
        )


def _download_file(remote: Remote, file: RemoteFile, draft: Path) -> None:
    whole = draft / file.path
    if whole.is_file() and whole.stat().st_size == file.size:
        return
    part = draft / PARTS / file.path
    for path in (whole, part):
        path.parent.mkdir(parents=True, exist_ok=True)
    have = part.stat().st_size if part.is_file() else 0
    if have > file.size:
        part.unlink()
        have = 0
    with part.open("ab") as content:
        if have < file.size:
            remote.fetch(file, content, have)
        content.flush()
        os.fsync(content.fileno())
        size = content.tell()
    if size < file.size:
        raise DownloadError(
            Reason.SOURCE_UNREACHABLE, f"{remote.name} sent {size} of {file.size} bytes of {file.path}."
        )
    checksum = file.checksum or remote.checksum(file)
    if size > file.size or (checksum is not None and not matches(part, checksum)):
        part.unlink()
        raise DownloadError(Reason.CHECKSUM_MISMATCH, f"{file.path} of {remote.name} came with a wrong checksum.")
    part.rename(whole)


def _present_bytes(draft: Path) -> int:
    return sum(_size(path) for path in draft.rglob("*") if path.name != NOTE)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0  # renamed meanwhile


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _of_disk(error: OSError, folder: Path) -> DownloadError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DownloadError(Reason.INSUFFICIENT_STORAGE, "The volume is full. Give the model a larger one.")
    return DownloadError(Reason.DOWNLOAD_FAILED, f"{folder} cannot be written: {error.strerror or error}.")
