"""A Triton server and the processes in which it runs its Python models, as Linux shows them: which, how large."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_PROCESSES = Path("/proc")


def stubs_of(server: int, repository: Path, processes: Path = _PROCESSES) -> Mapping[str, tuple[int, ...]]:
    """Return the processes of a server by the model that they run: by its folder's name in the repository."""
    named = re.compile(re.escape(os.fsencode(f"{repository}/")) + rb"([^/\0]+)/")
    stubs: dict[str, tuple[int, ...]] = {}
    for folder in processes.iterdir():
        if not folder.name.isdecimal() or _parent(folder) != server:
            continue
        if (found := named.search(_read(folder / "cmdline"))) is not None:
            model = os.fsdecode(found[1])
            stubs[model] = (*stubs.get(model, ()), int(folder.name))
    return stubs


def memory_of(stubs: Iterable[int], processes: Path = _PROCESSES) -> int | None:
    """Return how many bytes processes take, of what they share with others their share; None when all have ended."""
    sizes = [size for stub in stubs if (size := _size(stub, b"Pss:", processes)) is not None]
    return sum(sizes) if sizes else None


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
