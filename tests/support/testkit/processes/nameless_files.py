"""What a process keeps of the files that clients send: files without a name."""

import os
from contextlib import suppress
from pathlib import Path


def nameless_files(pid: int) -> list[str]:
    """Return the open files of a process that are in no folder."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(entry))
    return [link for link in found if link.endswith("(deleted)")]
