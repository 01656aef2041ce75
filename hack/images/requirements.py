"""Prints what a distribution of this repository needs, from the pyproject files alone.

The Dockerfile's `install` step uses it, so that dependencies are downloaded without the code that needs them and a
change of code downloads nothing. `third-party` prints requirements, `ours` the distributions of this repository. A name
may have extras behind it, in brackets.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_FOLDERS = ("libs/*", "services/*", "runtimes/*", "operator")
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[([^]]*)\])?")
"""A name, and its extras."""


def main(kind: str, *names: str) -> None:
    """Print the requirements of the named distributions, one per line."""
    wanted = set(_closure(_read_all(Path.cwd()), names))
    ours = {name for name, found in wanted if found}
    theirs = {name for name, found in wanted if not found}
    for requirement in sorted(ours if kind == "ours" else theirs):
        print(requirement)


def _read_all(root: Path) -> dict[str, dict[str, Any]]:
    files = (path for folder in _FOLDERS for path in root.glob(f"{folder}/pyproject.toml"))
    projects = [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in files]
    return {project["name"]: project for project in projects}


def _closure(known: dict[str, dict[str, Any]], requirements: Iterable[str]) -> Iterator[tuple[str, bool]]:
    for requirement in requirements:
        if (found := _REQUIREMENT.match(requirement)) is None or found[1] not in known:
            yield requirement, False
            continue
        yield found[1], True
        yield from _closure(known, known[found[1]]["dependencies"])
        for extra in filter(None, (found[2] or "").split(",")):
            yield from _closure(known, _extra(known[found[1]], extra))


def _extra(project: dict[str, Any], name: str) -> list[str]:
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})
    if name not in extras:
        sys.exit(f"requirements: {project['name']} has no extra {name!r}; it has {', '.join(extras) or 'none'}")
    return extras[name]


if __name__ == "__main__":
    main(*sys.argv[1:])
