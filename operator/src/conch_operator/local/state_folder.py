"""The folder that one `conch up` keeps its state in: logs, model repositories, caches, the lock and the status file.

logs/NAME.log         what each process wrote, from this start on
run/                  files that processes write when they serve
repositories/NAME/    one Triton model repository per engine
cache/                converted models and unpacked tokenizers; may be deleted at any time
models.json           when each model was first seen, which decides who keeps a served name
status.json           what `conch status` shows
lock                  held while `conch up` runs
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from conch_contracts.names import ModelId


class StateInUse(Exception):
    """Another `conch up` holds this state folder."""


class StateUnusable(Exception):
    """The state folder cannot be made or written."""


class StateFolder:
    """Knows the paths inside the folder, and reads and writes its small files."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.run = self.path / "run"
        self.cache = self.path / "cache"
        self.status = self.path / "status.json"
        self._logs = self.path / "logs"
        self._repositories = self.path / "repositories"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for one `conch up`, emptied of what an earlier one left.

        Raises StateInUse and StateUnusable.
        """
        with self._open_lock() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                lock.seek(0)
                raise StateInUse(lock.read().strip()) from error
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            for folder in (self._logs, self.run, self._repositories):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
            self.cache.mkdir(exist_ok=True)
            self.status.unlink(missing_ok=True)  # of one that was killed
            try:
                yield
            finally:
                self.status.unlink(missing_ok=True)

    def _open_lock(self) -> TextIO:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            return (self.path / "lock").open("a+")
        except OSError as error:
            sentence = f"The state folder {self.path} cannot be used: {error.strerror}"
            raise StateUnusable(f"{sentence}; choose another with --state-dir.") from error

    def is_held(self) -> bool:
        """Return whether a `conch up` holds the folder at this moment."""
        try:
            with (self.path / "lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def log(self, name: str) -> Path:
        """Return where a process writes its output."""
        return self._logs / f"{name}.log"

    def repository(self, name: str) -> Path:
        """Return the model repository of one engine."""
        return self._repositories / name

    def first_seen(self, models: Mapping[ModelId, int]) -> dict[ModelId, int]:
        """Return when each model was first seen, keeping earlier times over those given; forgets all others."""
        file = self.path / "models.json"
        try:
            known = json.loads(file.read_text())
        except (FileNotFoundError, ValueError):
            known = {}
        times = {model: int(known.get(model, now)) for model, now in models.items()}
        if times != known:
            write_atomically(file, json.dumps(times).encode())
        return times


def write_atomically(file: Path, data: bytes) -> None:
    """Replace a file's content so that a reader sees either the old one or the new one."""
    draft = file.with_suffix(".tmp")
    draft.write_bytes(data)
    draft.replace(file)
