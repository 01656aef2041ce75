"""Becomes the command that it is given, after asking the kernel to kill it when its parent dies.

Run as a script in a bare interpreter (`python -I -S die_with_parent.py PARENT COMMAND…`), so that no code runs between
fork and exec in the parent, which has threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Replace this process by the command; end at once when the parent is already gone."""
    parent, command = int(arguments[0]), arguments[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
