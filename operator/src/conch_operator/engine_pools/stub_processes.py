"""A Triton server and the processes in which it runs its Python models, as Linux shows them: which, how large."""

import os
from pathlib import Path

_PROCESSES = Path("/proc")


def stubs_of(server: int, model_folder: Path, processes: Path = _PROCESSES) -> tuple[int, ...]:
    """Return the processes of a server that run a model whose files are in this folder."""
    wanted = os.fsencode(f"{model_folder}/")
    return tuple(
        int(folder.name)
        for folder in processes.iterdir()
        if folder.name.isdecimal() and _parent(folder) == server and wanted in _read(folder / "cmdline")
    )


def memory_of(process: int, processes: Path = _PROCESSES) -> int | None:
    """Return how many bytes a process takes, of what it shares with others its share; None when it has ended."""
    return _size(process, b"Pss:", processes)


def own_memory_of(process: int, processes: Path = _PROCESSES) -> int | None:
    """Return how many bytes a process holds that are in no file and nobody else's; None when it has ended."""
    return _size(process, b"Anonymous:", processes)


def _size(process: int, name: bytes, processes: Path) -> int | None:
    for line in _read(processes / str(process) / "smaps_rollup").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return None


def _parent(folder: Path) -> int | None:
    after_name = _read(folder / "stat").rpartition(b")")[2].split()
    return int(after_name[1]) if len(after_name) > 1 else None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has ended, or belongs to somebody else
        return b""
