"""Ends every process of a `conch up` that died without ending them itself.

The kernel ends the direct children of a killed process, but not theirs: a Triton server's Python stubs would live on.
So this script, run in a bare interpreter, reads of every process group on its standard input, and when that closes, it
kills the groups that are left and removes their shared memory.

Lines: `+PGID` a group has started, `-PGID` it has ended, `shm PREFIX` shared memory that belongs to it.
"""

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")


def main(lines: Iterable[str], shared_memory: Path = SHARED_MEMORY) -> None:
    """Follow the lines to their end, then clean up."""
    groups: set[int] = set()
    prefixes: set[str] = set()
    for line in lines:
        match line.split():
            case ["shm", prefix]:
                prefixes.add(prefix)
            case [word] if word[0] == "+":
                groups.add(int(word[1:]))
            case [word]:
                groups.discard(int(word[1:]))
    for group in groups:
        kill_group(group)
    for prefix in prefixes:
        remove_shared_memory(prefix, shared_memory)


def kill_group(group: int) -> None:
    """Kill what is left of a process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def remove_shared_memory(prefix: str, folder: Path = SHARED_MEMORY) -> None:
    """Remove the shared-memory files that begin with a prefix."""
    for path in folder.glob(prefix + "*"):
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    for _signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(_signal, signal.SIG_IGN)
    main(sys.stdin)
