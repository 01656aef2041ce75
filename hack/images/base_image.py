"""Chooses the image that all others start from: the one asked for, the default one, or one made from Debian packages.

The last is for machines that reach a Debian mirror but no registry.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from images.build_tools import BuildFailed, Tool
from images.programs import running

_DEFAULT = "docker.io/library/python:3.11-slim"
_RELEASE = "bookworm"
_MADE = f"localhost/conch-base:{_RELEASE}"
_PACKAGES = "python3,python3-venv,libpython3.11,ca-certificates"
_NOT_NEEDED = ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")


def choose(tool: Tool, wanted: str | None, *, mirror: str | None) -> str:
    """Return the base to build on, after getting or making it."""
    if wanted:
        return wanted
    if tool.exists(_DEFAULT) or (not tool.exists(_MADE) and tool.pull(_DEFAULT)):
        return _DEFAULT
    if not tool.exists(_MADE):
        _say(f"{_DEFAULT} cannot be pulled, so a base is made with debootstrap (about a minute, once).")
        _make(tool, mirror)
    _say(f"The base is {_MADE}; set CONCH_IMAGE_BASE for another.")
    return _MADE


def _make(tool: Tool, mirror: str | None) -> None:
    if os.geteuid() or not shutil.which("debootstrap"):
        raise BuildFailed("That needs root and debootstrap (apt-get install -y debootstrap); or set CONCH_IMAGE_BASE.")
    with tempfile.TemporaryDirectory(prefix="conch-base-") as folder:
        system, context = Path(folder, "system"), Path(folder, "context")
        context.mkdir()
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _RELEASE, str(system)]
        _run(*command, *([mirror] if mirror else []))
        for path in _NOT_NEEDED:
            shutil.rmtree(system / path)
            (system / path).mkdir()
        _run("tar", "-C", str(system), "--exclude=./dev/*", "-cf", str(context / "system.tar"), ".")
        (context / "Dockerfile").write_text("FROM scratch\nADD system.tar /\n")
        tool.build_folder(context, _MADE)


def _run(*command: str) -> None:
    with running(command, stdout=sys.stderr) as process:
        failed = process.wait()
    if failed:
        raise BuildFailed(f"{command[0]} failed; what it said is above.")


def _say(line: str) -> None:
    sys.stderr.write(f"[images] {line}\n")
