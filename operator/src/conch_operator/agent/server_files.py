"""The files of the server's container, as the agent beside it sees them: below a folder that is that container's root.

Links are followed by whoever opens a file, from its own root. One that is absolute, or climbs above the root, would
lead the agent to files of its own container, so a folder that needs one is refused.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_MOST_LINKS = 40
"""That the kernel follows in one path."""


def link_out(root: Path, folder: str) -> str | None:
    """Return which path of a folder, as the server sees it, leads out of the root; None where none does.

    Looks at the folder, at what is in it, and one level deeper, where the files of a model are. Blocks on the disk.
    """
    shown = PurePosixPath("/", folder)
    if _leads_out(root, shown):
        return str(shown)
    for name in _links_in(root / shown.relative_to("/")):
        if _leads_out(root, shown / name):
            return str(shown / name)
    return None


def _links_in(folder: Path, *, deeper: bool = True) -> Iterator[str]:
    """Yield the links in a folder and in those right below it, by their path from here; nothing where it is none."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_symlink():
            yield entry.name
        elif deeper and entry.is_dir(follow_symlinks=False):
            for name in _links_in(folder / entry.name, deeper=False):
                yield f"{entry.name}/{name}"


def _leads_out(root: Path, path: PurePosixPath) -> bool:
    """Return whether some link on the way of a path is absolute, or climbs above the root."""
    there: list[str] = []
    left = list(reversed(path.relative_to("/").parts))
    links = 0
    while left:
        part = left.pop()
        if part == "..":
            if not there:
                return True
            there.pop()
            continue
        try:
            target = PurePosixPath(os.readlink(root.joinpath(*there, part)))
        except OSError:  # it is no link, or is not there
            there.append(part)
            continue
        links += 1
        if target.is_absolute() or links > _MOST_LINKS:
            return True
        left.extend(reversed(target.parts))
    return False
