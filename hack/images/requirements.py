"""Prints what a distribution of this repository needs, from the pyproject files alone.

The Dockerfile's `install` step uses it, so that dependencies are downloaded without the code that needs them and a
change of code downloads nothing. `third-party` prints requirements, `ours` the distributions of this repository.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

_FOLDERS = ("libs/*", "services/*", "runtimes/*", "operator")


def main(kind: str, *names: str) -> None:
    """Print the requirements of the named distributions, one per line."""
    wanted = set(_closure(_read_all(Path.cwd()), names))
    ours = {name for name, found in wanted if found}
    theirs = {name for name, found in wanted if not found}
    for requirement in sorted(ours if kind == "ours" else theirs):
        print(requirement)


def _read_all(root: Path) -> dict[str, list[str]]:
    files = (path for folder in _FOLDERS for path in root.glob(f"{folder}/pyproject.toml"))
    projects = [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in files]
    return {project["name"]: project["dependencies"] for project in projects}


def _closure(known: dict[str, list[str]], requirements: Iterable[str]) -> Iterator[tuple[str, bool]]:
    for requirement in requirements:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        yield (name, True) if name in known else (requirement, False)
        yield from _closure(known, known.get(name, ()))


if __name__ == "__main__":
    main(*sys.argv[1:])
